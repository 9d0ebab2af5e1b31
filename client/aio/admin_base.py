"""Base of the administrative client on asyncio: its opening and closing, and the time that its methods have."""

import struct
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from odradek.client import metrics
from odradek.client.aio.opening import QuestionsClient
from odradek.client.aio.world import named, world_of
from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.config import AdminConfig, addresses, load
from odradek.client.errors import ConfigError
from odradek.world.clock import Clock
from odradek.world.network import Network

Result = TypeVar("Result")


class AdminBase(QuestionsClient):
    """Opening, and the time that a method has."""

    config: AdminConfig
    _kind = "admin client"

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        random: Any = None,
        **settings: Any,
    ) -> None:
        """Take settings: Kafka's admin client configs. The other arguments are for tests. Raises ConfigError."""
        super().__init__(world_of(network, clock, random))
        self.config = named(load(AdminConfig, config, settings), "adminclient")
        addresses(self.config.bootstrap_servers)

    async def _run(
        self,
        what: str,
        work: Callable[[Cluster, Deadline], Coroutine[Any, Any, Result]],
        timeout_ms: float | None = None,
    ) -> Result:
        """Carry out `work` within `timeout_ms` (None: default.api.timeout.ms); `what` names it in errors.

        Raises ClientTimeout, ClientClosed, ConfigError for numbers and texts that no request can hold.
        """
        cluster, deadline = self._started(), self._deadline(what, timeout_ms)
        try:
            return await deadline.bound(work(cluster, deadline))
        except (struct.error, UnicodeEncodeError) as error:
            raise ConfigError(f"{what} cannot be sent: {error}") from error

    def _deadline(self, what: str, timeout_ms: float | None = None) -> Deadline:
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return Deadline(self._started(), limit_ms, what, "default.api.timeout.ms")

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics under Kafka's names: group → name → value."""
        figures = self._started().figures("admin-client-metrics")
        return metrics.raw(figures) if raw else figures
