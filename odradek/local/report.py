"""Reports of `odradek up`: a live table where a person looks, lines in a pipe, JSON for scripts."""

import json
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol

from odradek.local.cluster import REGISTERED, STARTING, STOPPING, BrokerStatus

WITHOUT_ZOOKEEPER = (
    "Without it no leader moves and no broker can join; "
    "`odradek stop` and `odradek up` start all again, nothing is lost"
)


def changes(before: Sequence[BrokerStatus], after: Sequence[BrokerStatus]) -> Iterator[dict[str, Any]]:
    """Yield what happened between two looks, as events with what a script needs to know."""
    earlier = {status.broker_id: status for status in before}
    for status in after:
        was = earlier.get(status.broker_id)
        if was is None or was.state != status.state:
            yield {"event": "broker", "broker": status.broker_id, "pid": status.pid, "state": status.state}
    controller = next((status.broker_id for status in after if status.controller), None)
    if controller != next((status.broker_id for status in before if status.controller), None):
        yield {"event": "controller", "broker": controller}


def sentence(event: dict[str, Any]) -> str:
    """Return an event in one line of plain text."""
    match event["event"]:
        case "ready":
            clients = f" clients={event['clients']}" if "clients" in event else ""
            console = f" console={event['console']}" if "console" in event else ""
            return f"ready bootstrap={event['bootstrap']} zookeeper={event['zookeeper']}{clients}{console}"
        case "controller":
            return "no controller" if event["broker"] is None else f"controller is broker {event['broker']}"
        case "zookeeper":
            return f"{event['state']}. {WITHOUT_ZOOKEEPER}"
        case "stopped":
            return "stopped"
        case _:
            return f"broker {event['broker']} (pid {event['pid']}): {event['state']}"


class Report(Protocol):
    """Receiver of the cluster's events, and a context manager around its whole life."""

    def __enter__(self) -> "Report": ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def say(self, event: dict[str, Any]) -> None: ...
    def show(self, statuses: Sequence[BrokerStatus]) -> None: ...


class Lines:
    """A line for each event, flushed at once."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, event: dict[str, Any]) -> None:
        print(json.dumps(event) if self._as_json else sentence(event), flush=True)

    def show(self, statuses: Sequence[BrokerStatus]) -> None:
        """Do nothing: a table has no place among lines."""


class LiveTable:
    """The brokers as they are now, below the lines of what happened."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, event: dict[str, Any]) -> None:
        from rich.text import Text

        self._console.print(Text(sentence(event)), soft_wrap=True)

    def show(self, statuses: Sequence[BrokerStatus]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table("broker", "address", "pid", "state", "controller", header_style="bold")
        for status in statuses:
            state = Text(status.state, style=style_of(status.state))
            mark = "*" if status.controller else ""
            table.add_row(str(status.broker_id), status.address, str(status.pid), state, mark)
        self._live.update(table, refresh=True)


def style_of(state: str) -> str:
    """Return a colour: what is as it should be, what is on its way, what somebody may want to look into."""
    if state.startswith(REGISTERED):
        return "green"
    return "yellow" if state in (STARTING, STOPPING) else "red"


def choose(*, as_json: bool) -> Report:
    """Return the form that fits where the output goes."""
    if sys.stdout.isatty() and not as_json:
        return LiveTable()
    return Lines(as_json=as_json)
