"""`odradek dump-log FILE`: the contents of a log's file, read without a broker; as JSON, or in columns for people."""

import json as json_format
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.broker.log.errors import CorruptFile
from odradek.cli.options import Json
from odradek.cli.output import printable

if TYPE_CHECKING:
    from odradek.broker.log.dump import Row


LOOKED_AT = 500
"""Rows at the beginning from which the widths of columns are taken."""
WIDTH_MAX = 60
TEXT_MAX = 120
"""Characters of a key or value that are shown to people."""

BATCH_COLUMNS = (("position", 10), ("size", 8), ("offsets", 16), ("records", 7), ("epoch", 5), ("time (UTC)", 23))
PRODUCER_COLUMNS = (("producer", 14), ("sequences", 13))


def json_row(row: Mapping[str, object]) -> dict[str, Any]:
    """Return a row with values that JSON can represent."""
    return {name: _json(value) for name, value in row.items()}


def _json(value: object) -> Any:
    if isinstance(value, bytes):
        return text(value)
    if isinstance(value, Mapping):
        return json_row(value)
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    return value


def text(value: bytes) -> str:
    """Return bytes from a client: as characters if they are text, otherwise as 0x and digits."""
    try:
        characters = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    plain = all(one.isprintable() or one in "\n\t" for one in characters)
    return characters if plain else f"0x{value.hex()}"


def time(timestamp_ms: object) -> str:
    """Return a timestamp as 2023-11-14 22:13:20.000, a dash for none, and the number if it is no possible date."""
    assert isinstance(timestamp_ms, int), timestamp_ms
    if timestamp_ms < 0:
        return "-" if timestamp_ms == -1 else str(timestamp_ms)
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"


def lines(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield a head and a line for each row."""
    left = iter(rows)
    first = list(islice(left, 1))
    if not first:
        yield "empty"
    elif "magic" in first[0]:
        yield from _batch_lines(chain(first, left))
    else:
        yield from _table_lines(chain(first, left))


def _table_lines(rows: Iterator[Mapping[str, object]]) -> Iterator[str]:
    """Yield the lines of a table for a small file, with a column for each name in a row."""
    looked_at: list[Mapping[str, object]] = []
    damage: CorruptFile | None = None
    try:
        looked_at.extend(islice(rows, LOOKED_AT))
    except CorruptFile as error:
        damage = error  # raised once the rows before it are shown
    heads = [_head(name) for name in looked_at[0]]
    widths = [len(head) for head in heads]
    for row in looked_at:
        widths = [max(width, len(cell)) for width, cell in zip(widths, _cells(row), strict=True)]
    yield _in_columns(heads, widths)
    for row in looked_at:
        yield _in_columns(_cells(row), widths)
    if damage is not None:
        raise damage
    for row in rows:
        yield _in_columns(_cells(row), widths)


def _head(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ").upper() + (" (UTC)" if name.endswith("_ms") else "")


def _cells(row: Mapping[str, object]) -> list[str]:
    return [time(value) if name.endswith("_ms") else _cell(value) for name, value in row.items()]


def _cell(value: object) -> str:
    return "-" if value in (-1, None) else str(value)


def _in_columns(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "  ".join(cell.ljust(min(width, WIDTH_MAX)) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _batch_lines(rows: Iterator[Mapping[str, object]]) -> Iterator[str]:
    columns = BATCH_COLUMNS + PRODUCER_COLUMNS
    widths = [width for _, width in columns]
    yield _in_columns([name.upper() for name, _ in columns], widths) + "  NOTES"
    for row in rows:
        if "magic" in row:
            yield f"{_in_columns(_batch_cells(row), widths):{sum(widths) + 2 * len(widths)}}{_notes(row)}".rstrip()
        else:
            yield "    " + _record_line(row)


def _batch_cells(row: Mapping[str, object]) -> list[str]:
    first, last = row.get("base_offset", row["last_offset"]), row["last_offset"]
    cells = [row["position"], row["size_bytes"], _range(first, last), row.get("record_count"), row.get("leader_epoch")]
    producer = row.get("producer_id", -1)
    return [
        *(_cell(cell) for cell in cells),
        time(row["max_timestamp_ms"]),
        "-" if producer == -1 else f"{producer} epoch {row['producer_epoch']}",
        "-" if row.get("base_sequence", -1) == -1 else _range(row["base_sequence"], row["last_sequence"]),
    ]


def _range(first: object, last: object) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _notes(row: Mapping[str, object]) -> str:
    notes = [str(row["codec"])] if row["codec"] != "none" else []
    notes += [name for name in ("control", "transactional") if row.get(name)]
    if row["timestamp_type"] != "CreateTime":
        notes.append(str(row["timestamp_type"]))
    if row["magic"] != 2:
        notes.append(f"magic {row['magic']}")
    if row.get("delete_horizon_ms") is not None:
        notes.append(f"tombstones until {time(row['delete_horizon_ms'])}")
    if not row["valid"]:
        notes.append("WRONG CHECKSUM")
    return ", ".join(notes)


def _record_line(row: Mapping[str, object]) -> str:
    start = f"{row['offset']}  {time(row['timestamp_ms'])}"
    if "control" in row:
        coordinator = row.get("coordinator_epoch")
        return f"{start}  {row['control']}" + ("" if coordinator is None else f"  coordinator epoch {coordinator}")
    parts = [start, f"key {shown(row['key'])}", f"value {shown(row['value'])}"]
    headers = row["headers"]
    if isinstance(headers, list) and headers:
        parts.append("headers " + ", ".join(f"{name}={shown(value)}" for name, value in headers))
    if "undecodable" in row:
        parts.append(f"NOT DECODED: {row['undecodable']}")
    return "  ".join(parts)


def shown(value: object) -> str:
    """Return a value as text short enough for a line."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_inner(content, name)}" for name, content in value.items())
    said = _readable(value) if isinstance(value, bytes) else str(value)
    return said if len(said) <= TEXT_MAX else f"{said[:TEXT_MAX]}… ({len(said)} characters)"


def _readable(value: bytes) -> str:
    """Return bytes as quoted text, escaping what is not text, or as 0x and digits if most would be escaped."""
    characters = value.decode("utf-8", "backslashreplace")
    escaped = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in characters)
    return f"0x{value.hex()}" if len(escaped) > 2 * len(value) else f'"{escaped}"'


def _inner(value: object, name: str = "") -> str:
    """Return a nested part of a decoded value as text."""
    if isinstance(value, Mapping):
        return "{" + shown(value) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inner(one) for one in value) + "]"
    if isinstance(value, int) and "timestamp" in name:
        return "-" if value == -1 else time(value).replace(" ", "T")
    return shown(value)


def dump_log(
    file: Annotated[
        list[str], typer.Argument(metavar="FILE…", help=".log, .index, .timeindex, .txnindex, .snapshot, a checkpoint")
    ],
    records: Annotated[bool, typer.Option("--records", help="print the records of each batch as well")] = False,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", help="topic of the records, to decode __consumer_offsets and __transaction_state [directory]"
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="check files, or whole directories, instead of printing them")
    ] = False,
    json: Json = False,
) -> None:
    """Print batches, index entries and producers, or check every byte and say exactly where damage begins."""
    paths = [path.rstrip("/") or "/" for path in file]
    raise typer.Exit(_verify(paths, topic, json) if verify else _dump(paths, records, topic, json))


def _dump(paths: list[str], records: bool, topic: str | None, json: bool) -> int:
    """Print the contents of files; return 1 when one is damaged. It is shown up to the damage."""
    from odradek.broker.log.dump import Damaged, dump, title
    from odradek.protocol.record_batch import CorruptBatch
    from odradek.world.os_files import ReadOnlyOsFiles

    files = ReadOnlyOsFiles()
    code = 0
    for number, path in enumerate(paths):
        try:
            rows = dump(files, path, records=records, topic=topic)
            if not json:
                heading = f"{path}: {title(path)}"
                files.open(path)  # a file that does not exist gets no heading
                print(("\n" if number else "") + heading)
            _print(path, rows, json)
        except ValueError as error:
            if not isinstance(error, CorruptBatch):
                raise typer.BadParameter(str(error)) from error
            code = _complain(path, error.position, error.reason)
        except Damaged as damage:
            code = _complain(path, damage.position, damage.reason)
    return code


def _print(path: str, rows: "Iterable[Row]", json: bool) -> None:
    """Print rows one by one, without keeping them: a file may have millions."""
    if json:
        for row in rows:
            print(json_format.dumps({"file": path} | json_row(row), ensure_ascii=False))
        return
    for line in lines(rows):
        print(printable(line))


def _complain(path: str, position: int, reason: str) -> int:
    sys.stdout.flush()
    print(printable(f"odradek: {path}: byte {position}: {reason}"), file=sys.stderr)
    return 1


def _verify(paths: list[str], topic: str | None, json: bool) -> int:
    """Verify the files; return 1 when anything is wrong."""
    from odradek.broker.log.dump import verify
    from odradek.world.os_files import ReadOnlyOsFiles

    files = ReadOnlyOsFiles()
    code = 0
    for path in paths:
        sound = True
        try:
            for damage in verify(files, path, topic=topic):
                sound = False
                if json:
                    print(json_format.dumps(damage._asdict(), ensure_ascii=False))
                else:
                    print(printable(f"{damage.path}: byte {damage.position}: {damage.reason}"))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        if not sound:
            code = 1
        elif not json:
            print(f"{path}: no damage")
    return code
