"""Chart of the totals: each airport's year as a calendar with a square per day, darker the later its flights left."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

AIRPORTS = {"EWR": "Newark", "JFK": "John F. Kennedy", "LGA": "LaGuardia"}
DARKEST_MINUTES = 60
"""Mean delay that is drawn darkest; longer delays look the same."""
WORST_DAYS = 3
INK, PALE = "#23303d", "#7b8794"
COLOURS = LinearSegmentedColormap.from_list("delays", ["#eef3f6", "#f6d8a8", "#ee9b4b", "#cf4a2f", "#6d1a36"])
WEEKDAYS = ("Mon", "", "Wed", "", "Fri", "", "Sun")
DAY_SIZE = 0.88
"""Part of a square's side that is drawn; the rest is the gap to the next square."""


class Day(NamedTuple):
    """One day of an airport."""

    when: date
    mean_minutes: float
    """Mean delay of the flights that left, in minutes."""
    flights: int
    cancelled: int


def draw(totals: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write a PNG. `totals` has origin, day and the columns `totals.TOTALS`. The folder is created if it is missing."""
    airports = by_airport(totals)
    figure = Figure(figsize=(13.5, 1.2 + 2.05 * max(1, len(airports))), dpi=150, facecolor="white")
    axes = figure.subplots(max(1, len(airports)), 1, squeeze=False)[:, 0]
    figure.subplots_adjust(left=0.055, right=0.80, top=0.83, bottom=0.05, hspace=0.3)
    for axis, (airport, days) in zip(axes, airports.items(), strict=False):
        _calendar(axis, airport, days)
    _title(figure, airports)
    _scale(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure)
    figure.savefig(path, format="png")


def by_airport(totals: Iterable[Mapping[str, Any]]) -> dict[str, list[Day]]:
    """Return the days of each airport in order, airports sorted by name."""
    found: dict[str, list[Day]] = {}
    for row in sorted(totals, key=lambda one: (one["origin"], one["day"])):
        left = row["flights"] - row["cancelled"]
        mean_minutes = row["delay_minutes"] / left if left else 0.0
        day = Day(date.fromisoformat(row["day"]), mean_minutes, row["flights"], row["cancelled"])
        found.setdefault(row["origin"], []).append(day)
    return found


def _calendar(axis: Axes, airport: str, days: Sequence[Day]) -> None:
    """Draw the weeks from left to right, Monday on top."""
    first = days[0].when.replace(month=1, day=1)
    monday = first - timedelta(days=first.weekday())
    for day in days:
        week, weekday = divmod((day.when - monday).days, 7)
        colour = COLOURS(min(day.mean_minutes / DARKEST_MINUTES, 1.0))
        axis.add_patch(Rectangle((week, weekday), DAY_SIZE, DAY_SIZE, facecolor=colour, edgecolor="none"))
    weeks = (days[-1].when - monday).days // 7 + 1
    axis.set(xlim=(-0.2, weeks), ylim=(7, -0.2), aspect="equal", anchor="W")
    axis.set_yticks([row + DAY_SIZE / 2 for row in range(7)], WEEKDAYS)
    months = sorted({(day.when.year, day.when.month) for day in days})
    starts = [date(year, month, 1) for year, month in months]
    axis.set_xticks([((start - monday).days + 6) // 7 for start in starts], [f"{start:%b}" for start in starts])
    axis.tick_params(length=0, labelsize=8, labelcolor=PALE)
    for label in axis.get_xticklabels():
        label.set_horizontalalignment("left")
    axis.spines[:].set_visible(False)
    name = f"{AIRPORTS[airport]} ({airport})" if airport in AIRPORTS else airport
    title = axis.set_title(name, loc="left", fontsize=11, color=INK, weight="bold", pad=7)
    axis.annotate(_summary(days), (1, 0), (8, 2.5), xycoords=title, textcoords="offset points", color=INK, fontsize=10)
    _worst(axis, days, monday)


def _summary(days: Sequence[Day]) -> str:
    left = sum(day.flights - day.cancelled for day in days)
    mean = sum(day.mean_minutes * (day.flights - day.cancelled) for day in days) / max(1, left)
    return f"{left:,} departures, {mean:.1f} minutes late on average"


def _worst(axis: Axes, days: Sequence[Day], monday: date) -> None:
    """Outline the worst days in the calendar, and describe them beside it."""
    worst = sorted(days, key=lambda day: day.mean_minutes, reverse=True)[:WORST_DAYS]
    axis.text(1.02, 0.94, "worst days", transform=axis.transAxes, fontsize=8, color=PALE)
    for place, day in enumerate(worst):
        week, weekday = divmod((day.when - monday).days, 7)
        axis.add_patch(Rectangle((week, weekday), DAY_SIZE, DAY_SIZE, fill=False, edgecolor=INK, linewidth=1.4))
        said = f"{day.when:%a %d %b}   {day.mean_minutes:.0f} min"
        below = f"{day.cancelled} of {day.flights} flights cancelled"
        top = 0.80 - 0.30 * place
        axis.text(1.02, top, said, transform=axis.transAxes, fontsize=9, color=INK, weight="bold", va="top")
        axis.text(1.02, top - 0.13, below, transform=axis.transAxes, fontsize=8, color=PALE, va="top")


def _title(figure: Figure, airports: Mapping[str, Sequence[Day]]) -> None:
    days = [day for one in airports.values() for day in one]
    years = sorted({day.when.year for day in days})
    flights = sum(day.flights for day in days)
    when = str(years[0]) if len(years) == 1 else f"{years[0]}-{years[-1]}" if years else "no flights yet"
    figure.text(0.018, 0.955, f"How late New York's flights left, {when}", fontsize=17, color=INK, weight="bold")
    said = f"Mean departure delay per airport and day. {flights:,} flights, read from a topic and counted by Spark."
    figure.text(0.018, 0.922, said, fontsize=10, color=PALE)


def _scale(figure: Figure) -> None:
    axis = figure.add_axes((0.815, 0.955, 0.165, 0.014))
    bar = figure.colorbar(ScalarMappable(Normalize(0, DARKEST_MINUTES), COLOURS), cax=axis, orientation="horizontal")
    ticks = [0, 20, 40, DARKEST_MINUTES]
    bar.set_ticks(ticks, labels=[*map(str, ticks[:-1]), f"{DARKEST_MINUTES}+ min"])
    bar.outline.set_visible(False)
    axis.tick_params(length=0, labelsize=8, labelcolor=PALE)
