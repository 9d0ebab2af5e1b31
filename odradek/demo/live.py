"""Display of the demo while it runs: a live picture on a terminal, elsewhere a line for each change."""

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from odradek.demo.cluster import MIN_INSYNC_REPLICAS, REPLICAS, TOPIC, ClusterState

WIDTH = 100
"""Width of the picture in characters, and of tables that go into a file."""
BAR_WIDTH = 40
LINES_EVERY_SECONDS = 2.0
BROKER_STYLES = ("cyan", "magenta", "yellow")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is displayed at one moment."""

    headline: str = ""
    cluster: ClusterState = field(default_factory=ClusterState)
    dead: frozenset[int] = frozenset()
    produced: int = 0
    """Number of records to produce."""
    acknowledged: int = 0
    rate: float = 0.0
    """Acknowledged records per second over the last moments."""
    read: int = 0
    acknowledged_by_partition: Mapping[int, int] = field(default_factory=dict)
    read_by_partition: Mapping[int, int] = field(default_factory=dict)
    owners: Mapping[int, int] = field(default_factory=dict)


def changes(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """Yield a line for each change of a leader or in-sync set between two snapshots."""
    if before.cluster.controller != after.cluster.controller and after.cluster.controller >= 0:
        yield f"controller: broker {after.cluster.controller}"
    for partition, now in after.cluster.partitions.items():
        was = before.cluster.partitions.get(partition)
        if was == now:
            continue
        leader = str(now.leader) if was is None or was.leader == now.leader else f"{was.leader} → {now.leader}"
        in_sync = ",".join(map(str, now.in_sync))
        yield f"{TOPIC}-{partition}: leader {leader}, in sync {in_sync}"


def progress(snapshot: Snapshot) -> str:
    """Return the numbers in one line."""
    done = f"{snapshot.acknowledged:,} of {snapshot.produced:,} records acknowledged ({snapshot.rate:,.0f}/s)"
    return f"{done}, the group has read {snapshot.read:,}"


def picture(snapshot: Snapshot) -> RenderableType:
    """Draw the cluster at one moment."""
    facts = f"acks=all, idempotent, min.insync.replicas={MIN_INSYNC_REPLICAS}"
    return Panel(
        Group(_brokers(snapshot), Text(), _partitions(snapshot), Text(), _progress(snapshot)),
        title=f"[bold]{TOPIC}[/]  {snapshot.headline}",
        title_align="left",
        subtitle=facts,
        subtitle_align="right",
        width=WIDTH,
        border_style="red" if snapshot.dead else "green",
        padding=(1, 2, 0, 2),
    )


def _brokers(snapshot: Snapshot) -> RenderableType:
    cells = []
    for broker in range(REPLICAS):
        if broker in snapshot.dead:
            cells.append(Text.assemble((f"✗ broker {broker} ", "bold red"), ("killed", "red")))
            continue
        role = ", controller" if broker == snapshot.cluster.controller else ""
        leads = f"leads {len(snapshot.cluster.led_by(broker))}{role}"
        cells.append(Text.assemble((f"● broker {broker} ", f"bold {BROKER_STYLES[broker]}"), leads))
    return Columns(cells, expand=True, equal=True)


def _partitions(snapshot: Snapshot) -> RenderableType:
    table = Table(box=None, expand=True, header_style="dim", padding=(0, 1), pad_edge=False)
    for name in ("partition", "leader", "in sync"):
        table.add_column(name)
    for name in ("acknowledged", "read", "by reader"):
        table.add_column(name, justify="right")
    for partition, state in snapshot.cluster.partitions.items():
        owner = snapshot.owners.get(partition)
        table.add_row(
            f"{TOPIC}-{partition}",
            _leader(state.leader, snapshot.dead),
            _in_sync(state.in_sync, snapshot.dead),
            f"{snapshot.acknowledged_by_partition.get(partition, 0):,}",
            f"{snapshot.read_by_partition.get(partition, 0):,}",
            "" if owner is None else str(owner),
        )
    return table


def _leader(leader: int, dead: frozenset[int]) -> Text:
    if leader < 0:
        return Text("none", style="bold red")
    if leader in dead:
        return Text(f"broker {leader} ✗", style="bold red")
    return Text(f"broker {leader}", style=BROKER_STYLES[leader])


def _in_sync(in_sync: tuple[int, ...], dead: frozenset[int]) -> Text:
    """Return a mark for each broker: in sync; in sync according to the metadata, but dead; out of sync."""
    text = Text()
    for broker in range(REPLICAS):
        if broker not in in_sync:
            text.append("○ ", "dim")
        else:
            text.append("● ", "red" if broker in dead else BROKER_STYLES[broker])
    return text.append(",".join(map(str, in_sync)), "dim")


def _progress(snapshot: Snapshot) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    for name, count in (("acknowledged", snapshot.acknowledged), ("read", snapshot.read)):
        share = count / snapshot.produced if snapshot.produced else 0.0
        bar = ProgressBar(total=max(1, snapshot.produced), completed=count, width=BAR_WIDTH, pulse=False)
        rate = f"{snapshot.rate:,.0f}/s" if name == "acknowledged" else ""
        numbers = f"{count:>9,} of {snapshot.produced:,}"
        grid.add_row(Text(name, "dim"), bar, f"{share:4.0%}", numbers, Text(rate, "dim"))
    return grid


class Display(Protocol):
    """Display of a run, and a context manager around it."""

    console: Console

    def __enter__(self) -> "Display": ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, snapshot: Snapshot) -> None: ...
    def say(self, text: str) -> None: ...


class LivePicture:
    """Display that updates a picture in place, below the lines that were printed."""

    def __init__(self) -> None:
        self.console = Console()
        self._began = time.monotonic()
        self._live = Live(console=self.console, auto_refresh=False)

    def __enter__(self) -> "LivePicture":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        self._live.update(picture(snapshot), refresh=True)

    def say(self, text: str) -> None:
        seconds = time.monotonic() - self._began
        self.console.print(Text.assemble((f"{seconds:6.1f} s  ", "dim"), text))


class Lines:
    """Display that prints a line for each change, and every few seconds one with the numbers; flushed at once."""

    def __init__(self) -> None:
        self.console = Console(width=WIDTH)
        self._began = time.monotonic()
        self._shown = Snapshot()
        self._next_seconds = 0.0

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, snapshot: Snapshot) -> None:
        for line in changes(self._shown, snapshot):
            self.say(line)
        if snapshot.acknowledged and time.monotonic() >= self._next_seconds:
            self.say(progress(snapshot))
            self._next_seconds = time.monotonic() + LINES_EVERY_SECONDS
        self._shown = snapshot

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


def choose() -> Display:
    """Return the display for the present standard output."""
    return LivePicture() if sys.stdout.isatty() else Lines()
