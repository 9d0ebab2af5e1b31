"""`odradek dump-log FILE`: what stands in a file of a log, without a broker."""

import json as json_format
from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from odradek.cli.options import Json
from odradek.cli.output import plain


def dump_log(
    file: Annotated[
        list[str], typer.Argument(metavar="FILE…", help=".log, .index, .timeindex, .txnindex, .snapshot, a checkpoint")
    ],
    records: Annotated[bool, typer.Option("--records", help="the records of each batch too")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="check files, or all files of a directory, instead of printing them")
    ] = False,
    json: Json = False,
) -> None:
    """Print batches, index entries, producers; or check every byte and say exactly where damage begins."""
    from odradek.world.os_files import OsFiles

    files = OsFiles()
    if verify:
        from odradek.broker.log.dump import verify as damages

        found = [damage for path in file for damage in damages(files, path)]
        _print_rows((damage._asdict() for damage in found), as_json=json)
        if not found and not json:
            print(f"{', '.join(file)}: no damage")
        raise typer.Exit(1 if found else 0)
    from odradek.broker.log.dump import dump

    for path in file:
        try:
            _print_rows(dump(files, path, records=records), as_json=json)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error


def _print_rows(rows: Iterable[Mapping[str, object]], *, as_json: bool) -> None:
    """One line each: a file may hold millions."""
    for row in rows:
        if as_json:
            print(json_format.dumps(plain(row), ensure_ascii=False))
        else:
            print("  ".join(f"{name}={plain(value)}" for name, value in row.items()))
