"""The cluster that many tests share: each finds it whole, and leaves no topic behind."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from odradek.testing.cluster.blocking import Cluster


class ClusterOfTests(Cluster):
    """The cluster behind the pytest fixture `kafka`: a Cluster that also names topics after the test."""

    began_ms = 0.0
    """Time at which the present test began, as `timeline` counts."""
    _test = ""
    _before: frozenset[str] = frozenset()

    def begin(self, test: str) -> None:
        """Note that a test begins; the plugin calls this."""
        self._test = re.sub(r"[^a-zA-Z0-9._-]+", "-", test).strip("-")[-150:]
        self._numbers = itertools.count(1)
        self._before = frozenset(self.topics())
        self.began_ms = self.age_ms()

    def topic(
        self, name: str = "topic", partitions: int = 1, settings: Mapping[str, Any] | None = None, **named: Any
    ) -> str:
        """Create a topic of a unique name, and return that: `name`, the test's name and a number. Other arguments are
        those of `create_topic`."""
        own = f"{name}-{self._test}-{next(self._numbers)}"
        self.create_topic(own, partitions, settings=settings, **named)
        return own

    def mend(self, *, keep: bool = False) -> None:
        """End all faults, start all brokers and delete the test's topics (unless `keep`); the plugin calls this."""
        self.clear()
        self.heal()
        for broker in range(self.brokers):
            self.resume(broker)
            if not self.is_running(broker):
                self.restart(broker)
        for topic in () if keep else set(self.topics()) - self._before:
            self.delete_topic(topic)
