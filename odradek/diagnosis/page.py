"""Table of situations in docs/why.md, generated from the rows by `python -m odradek.diagnosis.page --write`."""

import sys
from pathlib import Path

from odradek.diagnosis.examination import TABLES
from odradek.diagnosis.situation import Weight

PAGE = Path(__file__).parents[2] / "docs" / "why.md"
BEGIN, END = "<!-- situations: begin -->", "<!-- situations: end -->"
TITLES = {"cluster": "The cluster", "broker": "A broker", "partition": "A partition", "group": "A group"}

HEAD = "| situation | severity | meaning | remedy | rule |\n|---|---|---|---|---|"


def render() -> str:
    """Render the table of all situations: grouped by subject, worst first."""
    parts = []
    for table in TABLES:
        parts.append(f"### {TITLES[table.about]}\n\n{HEAD}")
        rows = sorted(table.rows, key=lambda one: -one.weight)
        parts[-1] += "".join(
            f"\n| `{one.name}` | {one.weight.name.lower()} | {one.sign} | {one.way_out} | {one.source} |"
            for one in rows
        )
    weights = "\n".join(f"- **{one.name.lower()}**: {MEANINGS[one]}" for one in reversed(Weight))
    return "\n\n".join([weights, *parts])


MEANINGS = {
    Weight.LOST: "acknowledged records are lost",
    Weight.STOPPED: "clients cannot read or write",
    Weight.DEGRADED: "it works, but with less redundancy, or late",
    Weight.UNEVEN: "everything works, but could work better",
    Weight.NOTE: "something happened, and nothing is to be done. `why` shows it, `doctor` only with `--least note`",
}


def current(page: str) -> str:
    """Return the page with a new table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{render()}\n{END}{after}"


if __name__ == "__main__":
    text = current(PAGE.read_text())
    if "--write" in sys.argv:
        PAGE.write_text(text)
    else:
        print(text)
