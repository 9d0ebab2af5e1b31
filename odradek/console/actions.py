"""Actions on brokers from the page, where the console is given brokers that it may act on."""

from collections.abc import Sequence
from typing import Protocol

from odradek.console.snapshot import BrokerProcess

KILL, STOP, START, SUSPEND, RESUME = "kill", "stop", "start", "suspend", "resume"
ISOLATE, REJOIN = "isolate", "rejoin"
SAID = {
    KILL: "was killed (SIGKILL): it said nothing to anybody",
    STOP: "was asked to stop (SIGTERM): it hands its partitions over first",
    START: "was started again",
    SUSPEND: "was frozen (SIGSTOP): its connections stay open, and nothing comes back",
    RESUME: "goes on after it was frozen (SIGCONT)",
    ISOLATE: "was cut off from ZooKeeper: it lives, and hears no more who leads",
    REJOIN: "reaches ZooKeeper again",
}
"""Sentences for the time line."""


class ActionRefusedError(Exception):
    """A broker cannot be acted upon so now; one line that says why."""


class Brokers(Protocol):
    """The brokers of this machine."""

    def processes(self) -> Sequence[BrokerProcess]:
        """Return the processes of all brokers, with what can be done to each."""

    async def act(self, broker_id: int, action: str) -> None:
        """Do it. Raises ActionRefusedError."""
