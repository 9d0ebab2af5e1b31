"""`odradek dump-log FILE`: what stands in a file of a log, without a broker."""

import json as json_format
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.dump_lines import json_row, lines
from odradek.cli.options import Json

if TYPE_CHECKING:
    from odradek.broker.log.dump import Row


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
    """Print what the files hold; return 1 when one was damaged: it is shown as far as it goes."""
    from odradek.broker.log.dump import Damaged, dump, title
    from odradek.protocol.record_batch import CorruptBatch
    from odradek.world.os_files import ReadOnlyOsFiles

    files = ReadOnlyOsFiles()
    code = 0
    for number, path in enumerate(paths):
        try:
            rows = dump(files, path, records=records, topic=topic)
            if not json:
                print(("\n" if number else "") + f"{path}: {title(path)}")
            _print(path, rows, json)
        except ValueError as error:
            if not isinstance(error, CorruptBatch):
                raise typer.BadParameter(str(error)) from error
            code = _complain(path, error.position, error.reason)
        except Damaged as damage:
            code = _complain(path, damage.position, damage.reason)
    return code


def _print(path: str, rows: "Iterable[Row]", json: bool) -> None:
    """Print the rows one by one, without holding them all: a file may hold millions."""
    if json:
        for row in rows:
            print(json_format.dumps({"file": path} | json_row(row), ensure_ascii=False))
        return
    for line in lines(rows):
        print(line)


def _complain(path: str, position: int, reason: str) -> int:
    sys.stdout.flush()
    print(f"odradek: {path}: byte {position}: {reason}", file=sys.stderr)
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
                    print(f"{damage.path}: byte {damage.position}: {damage.reason}")
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        if not sound:
            code = 1
        elif not json:
            print(f"{path}: no damage")
    return code
