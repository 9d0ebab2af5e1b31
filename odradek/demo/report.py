"""Report at the end of the demo: timeline, closing table, verdict, and a picture of all that for a page."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from odradek.demo.cluster import TOPIC
from odradek.demo.flights import Totals
from odradek.demo.live import WIDTH, Snapshot, picture
from odradek.demo.readers import Share
from odradek.demo.timeline import Moment
from odradek.demo.verdict import Findings, GroupFindings

FONTS = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Result:
    """Results of one run."""

    moments: Sequence[Moment]
    findings: Findings
    group: GroupFindings
    different_replicas: int
    """Number of partitions whose replicas differ."""
    longest_pauses_ms: dict[int, float]
    outage: Snapshot
    """The cluster when the new leaders had just been elected."""
    shares: Sequence[tuple[Share, Share]]
    """Share of each reader when the broker was killed, and at the end."""
    airports: Mapping[str, Totals]
    """Counted from the flights themselves."""
    counted_by_spark: Mapping[str, Totals]
    chart: Path

    @property
    def problems(self) -> list[str]:
        """Return what is wrong, in words; an empty list when all is well."""
        others = {
            "partitions whose replicas differ": self.different_replicas,
            "airports that Spark counted otherwise": len(self.miscounted_airports),
        }
        counted = [f"{count} {what}" for what, count in others.items() if count]
        missing = [] if self.chart.is_file() else ["no chart was drawn"]
        return [*self.findings.problems, *self.group.problems, *counted, *missing]

    @property
    def miscounted_airports(self) -> list[str]:
        """List the airports for which Spark's figures are not those of the input."""
        return sorted(
            airport
            for airport in self.airports.keys() | self.counted_by_spark.keys()
            if self.airports.get(airport) != self.counted_by_spark.get(airport)
        )


def _table(title: str) -> Table:
    return Table(title=title, title_style="bold", title_justify="left", box=SIMPLE_HEAD, width=WIDTH)


def failover_table(moments: Sequence[Moment]) -> RenderableType:
    """Return the timeline as a table: when, how long after the moment that it follows from, and what."""
    table = _table("The failover")
    table.add_column("t", justify="right", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True, style="dim")
    table.add_column("what", no_wrap=True)
    table.add_column("", style="dim")
    for moment in moments:
        took = "" if moment.took_ms is None else duration(moment.took_ms)
        style = "bold red" if moment.at_ms == 0 else ""
        table.add_row(f"{moment.at_ms / 1000:.3f} s", took, Text(moment.what, style), moment.detail)
    return table


def closing_table(result: Result) -> RenderableType:
    """Return a table of the counts, each with how it was counted."""
    findings, group = result.findings, result.group
    table = _table("The count")
    table.add_column("records", justify="right")
    table.add_column("")
    table.add_column("counted how", style="dim")
    table.add_row(f"{findings.produced:,}", "produced", "flights sent")
    missing = findings.produced - findings.acknowledged
    table.add_row(_count(findings.acknowledged, bad=missing > 0), "acknowledged", "answers with an offset")
    table.add_row(f"{findings.in_log:,}", "in the log", "segment files of the leaders, checksums verified")
    for count, what, how in (
        (findings.lost, "lost", "acknowledged, not in the log"),
        (findings.misplaced, "misplaced", "in the log at another offset than acknowledged"),
        (findings.repeated, "repeated", "in the log more than once"),
        (findings.out_of_order, "out of order", "behind a later one of the same producer and partition"),
        (findings.unknown, "unknown", "in the log, never sent"),
    ):
        table.add_row(_count(count, bad=count > 0, good=count == 0), what, how)
    table.add_section()
    reads = f"{group.different:,} different, {group.read_again:,} read again"
    table.add_row(f"{group.read:,}", "read by the group", reads)
    wrong = group.missed + group.altered
    table.add_row(_count(wrong, bad=wrong > 0, good=wrong == 0), "missed or altered", "what was read against the log")
    return table


def readers_table(result: Result) -> RenderableType:
    """Return a table of what each reader had read when the broker was killed, and what it read after that."""
    table = _table("The readers")
    for name in ("reader", "partitions before the kill", "after it"):
        table.add_column(name)
    for name in ("records before the kill", "after it"):
        table.add_column(name, justify="right")
    for reader, (before, after) in enumerate(result.shares):
        partitions = [", ".join(map(str, share.partitions)) for share in (before, after)]
        table.add_row(str(reader), *partitions, f"{before.records:,}", f"{after.records - before.records:,}")
    return table


def order_table(result: Result) -> RenderableType:
    """Return a table of the order, partition by partition."""
    findings, group = result.findings, result.group
    table = _table("The order")
    table.add_column("partition")
    for name in ("records", "written out of order", "read out of order"):
        table.add_column(name, justify="right")
    table.add_column("read by")
    for partition, count in findings.out_of_order_by_partition.items():
        readers = ", then ".join(map(str, group.readers_by_partition.get(partition, ())))
        counts = (count, group.out_of_order_by_partition.get(partition, 0))
        coloured = (_count(one, bad=one > 0, good=one == 0) for one in counts)
        table.add_row(f"{TOPIC}-{partition}", f"{findings.in_log_by_partition[partition]:,}", *coloured, readers)
    return table


def airports_table(result: Result) -> RenderableType:
    """Return a table of Spark's figures above the input's own, with the path of the chart."""
    table = _table("The pipeline")
    table.caption, table.caption_justify = Text(f"  drawn: {result.chart}", "not italic"), "left"
    table.add_column("airport")
    table.add_column("counted", style="dim")
    for name in Totals._fields:
        table.add_column(name.replace("_", " "), justify="right")
    for airport in sorted(result.airports.keys() | result.counted_by_spark.keys()):
        true, found = result.airports.get(airport, Totals()), result.counted_by_spark.get(airport, Totals())
        pairs = zip(found, true, strict=True)
        table.add_row(airport, "by Spark", *(_count(one, bad=one != other, good=one == other) for one, other in pairs))
        table.add_row("", "from the file", *(f"{one:,}" for one in true), end_section=True)
    return table


def _count(count: int, *, bad: bool, good: bool = False) -> Text:
    return Text(f"{count:,}", "bold red" if bad else "green" if good else "")


def verdict(result: Result) -> Text:
    """Return the conclusion."""
    if result.problems:
        return Text("  ✗ " + "; ".join(result.problems), "bold red")
    pause = duration(max(result.longest_pauses_ms.values(), default=0.0))
    return Text.assemble(
        ("  ✓ nothing lost, repeated or out of order; the replicas are equal byte for byte\n", "bold green"),
        ("  ✓ Spark's figures are the input's own\n", "bold green"),
        f"    the longest time that a partition acknowledged nothing: {pause}",
    )


def duration(milliseconds: float) -> str:
    """Format a duration with a unit that keeps it short."""
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 1000 else f"{milliseconds:.0f} ms"


def closing(result: Result) -> RenderableType:
    """Return everything that is printed when the run is over."""
    tables = (readers_table(result), closing_table(result), order_table(result), airports_table(result))
    return Group(Text(), failover_table(result.moments), *tables, Text(), verdict(result), Text())


def write_svg(result: Result, path: Path) -> None:
    """Write a picture for a page: the cluster just after the election, timeline and counts. It contains no path."""
    console = Console(record=True, width=WIDTH + 2, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(picture(result.outage), closing(result), sep="\n")
    svg = console.export_svg(title="make demo")
    path.parent.mkdir(parents=True, exist_ok=True)
    # No fonts are fetched from elsewhere: every viewer has a monospaced one.
    path.write_text(FONT_FACES.sub("", svg).replace("Fira Code, monospace", FONTS))
