"""Counts of what a controller has done: integers and durations, which broker/monitoring reads when asked."""

from odradek.world.durations import Durations


class ControllerCounters:
    """Counts of what this broker's controller has done, all times that it was active (Kafka's ControllerStats)."""

    def __init__(self) -> None:
        self.elections = self.unclean_elections = 0
        """Leaders written to ZooKeeper; those of them from outside the ISR."""
        self.isr_changes = 0
        """Changes of in-sync replicas that leaders asked for, written to ZooKeeper."""
        self.events: dict[str, Durations] = {}
        """Durations of handling events, by the kind of event."""
        self.present_event = ""
        """The kind that is being handled now; empty when there is none."""

    def handled(self, event: str, seconds: float) -> None:
        """Count an event."""
        self.events.setdefault(event, Durations()).add(seconds)
