"""Actions on brokers from the page, if the console is given brokers to control."""

from collections.abc import Sequence
from typing import Protocol

from odradek.console.snapshot import BrokerProcess

KILL, STOP, START, SUSPEND, RESUME = "kill", "stop", "start", "suspend", "resume"
ISOLATE, REJOIN = "isolate", "rejoin"
SAID = {
    KILL: "was killed (SIGKILL), without any notice to others",
    STOP: "was asked to stop (SIGTERM): it hands its partitions over first",
    START: "was started again",
    SUSPEND: "was frozen (SIGSTOP): its connections stay open, but it does not answer",
    RESUME: "goes on after it was frozen (SIGCONT)",
    ISOLATE: "was cut off from ZooKeeper: it runs, but does not learn who leads",
    REJOIN: "reaches ZooKeeper again",
}
"""Sentences for the time line."""


class ActionRefusedError(Exception):
    """An action is not possible for a broker now. The message says why, in one line."""


class Brokers(Protocol):
    """Brokers of this machine that the page can control."""

    def processes(self) -> Sequence[BrokerProcess]:
        """Return the processes of all brokers, with what can be done to each."""

    async def act(self, broker_id: int, action: str) -> None:
        """Carry out an action on a broker. Raises ActionRefusedError."""
