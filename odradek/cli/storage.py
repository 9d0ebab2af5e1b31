"""`odradek storage`: work on a broker's log directories without a broker.

The subcommands are named as those of kafka-storage.sh, but are for directories of ZooKeeper mode, with a
`meta.properties` of version 0.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import Json, new_app
from odradek.cli.output import heard_from, print_json, printable

if TYPE_CHECKING:
    from odradek.broker.config import BrokerConfig
    from odradek.broker.log.dump.survey import Survey

WRONG = 1
PEOPLE_READ = 20
"""Findings of damage in a directory that are printed; --json prints all."""

storage = new_app("Format, show and check the log directories of a stopped broker.")
Config = Annotated[Path, typer.Option("--config", "-c", metavar="FILE.properties", help="the broker's properties file")]


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print an id for a new cluster."""
    import random

    from odradek.zk_schema.znodes.cluster import new_cluster_id

    print(new_cluster_id(random.SystemRandom()))


@storage.command("format")
def format_directories(
    config: Config,
    cluster_id: Annotated[
        str,
        typer.Option("--cluster-id", "-t", metavar="ID", help="as shown by odradek zk get /cluster/id"),
    ],
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="skip directories that belong to this broker already")
    ] = False,
) -> None:
    """Write each log directory's owner into it, as a broker does at its first start.

    The broker then refuses to start with any other cluster. Records are not touched: a directory that has a
    meta.properties is refused, or left as it is.
    """
    import time

    from odradek.broker.log.directories.directory_files import META_PROPERTIES, DirectoryOwner, encode_meta
    from odradek.broker.log.dump.survey import owner_of
    from odradek.world.os_files import OsFiles
    from odradek.zk_schema.znodes.json_data import uuid_bytes

    try:
        uuid_bytes(cluster_id)
    except ValueError:
        raise typer.BadParameter(
            f"{cluster_id!r} is not an id of 22 characters, such as random-uuid prints", param_hint="--cluster-id"
        ) from None
    found = _load(config)
    if found.broker_id < 0:
        raise typer.BadParameter(f"{config} has no broker.id: a broker that chooses its own formats them itself")
    owner = DirectoryOwner(found.broker_id, cluster_id)
    files = OsFiles()
    wanted = []
    for path in found.log_dirs:  # all are looked at before any is written
        said = owner_of(files, path)
        if said[:2] == (None, None):
            wanted.append(path)
        elif said[:2] != owner:
            raise OSError(f"{path} belongs to broker {said.broker_id} of cluster {said.cluster_id}")
        elif not ignore_formatted:
            raise OSError(f"{path} is formatted already: --ignore-formatted skips it and formats the others")
    for path in wanted:
        files.make_directory(path)
        files.write_atomically(f"{path}/{META_PROPERTIES}", encode_meta(owner, int(time.time() * 1000), {}))
        print(f"Formatting {path} for broker {owner.broker_id} of cluster {cluster_id}.")
    if not wanted:
        print("All of the log directories are already formatted.")


@storage.command("info")
def info(config: Config, json: Json = False) -> None:
    """Show to which broker the log directories belong. Exit code 1 if a broker with this file would refuse them."""
    from odradek.broker.log.directories.directory_files import common_owner
    from odradek.broker.log.dump.survey import owner_of
    from odradek.broker.log.errors import UnusableDirectory
    from odradek.world.os_files import ReadOnlyOsFiles, locked_by

    found = _load(config)
    owners, problems = {}, []
    for path in found.log_dirs:
        try:
            owners[path] = owner_of(ReadOnlyOsFiles(), path)
        except OSError as error:
            problems.append(str(error))
    try:
        common = common_owner(owners)
        if common.broker_id is not None and found.broker_id not in (-1, common.broker_id):
            problems.append(f"broker.id is {found.broker_id}, but the directories belong to broker {common.broker_id}")
    except UnusableDirectory as error:
        problems.append(str(error))
    used = {path: locked_by(f"{path}/.lock") for path in found.log_dirs}
    if json:
        rows = [
            {"directory": path, "broker_id": one.broker_id, "cluster_id": one.cluster_id, "used_by": used[path]}
            for path, one in owners.items()
        ]
        print_json({"directories": rows, "problems": problems})
    else:
        for path, one in owners.items():
            formatted = f"broker {one.broker_id} of cluster {one.cluster_id}"
            text = (
                formatted
                if one.broker_id is not None
                else "not formatted: the first broker that starts with it formats it"
            )
            print(printable(f"{path}: {text}{_used(used[path])}"))
        for problem in problems:
            print(printable(f"problem: {problem}"))
    raise typer.Exit(WRONG if problems else 0)


@storage.command("check")
def check(
    directory: Annotated[
        list[str] | None, typer.Argument(metavar="[DIRECTORY…]", help="without any: those of --config")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE.properties", help="the broker's properties file")
    ] = None,
    json: Json = False,
) -> None:
    """Read every byte of log directories and report damage: owner, each batch with its checksum, indexes, checkpoints,
    producers, epochs, and all of these against each other. Changes nothing. Exit code 1 if there is damage."""
    from odradek.broker.log.directories.directory_files import common_owner
    from odradek.broker.log.dump.survey import survey
    from odradek.broker.log.errors import UnusableDirectory
    from odradek.world.os_files import ReadOnlyOsFiles, locked_by

    if bool(directory) == (config is not None):
        raise typer.BadParameter("name directories, or a --config, and not both")
    paths = [path.rstrip("/") or "/" for path in directory or ()] if config is None else list(_load(config).log_dirs)
    surveys = [survey(ReadOnlyOsFiles(), path) for path in paths]
    problems = []
    if config is not None:
        try:
            common_owner({one.path: one.owner for one in surveys})
        except UnusableDirectory as error:
            problems.append(str(error))
    if json:
        print_json({"directories": surveys, "problems": problems})
    else:
        for one in surveys:
            _tell(one, locked_by(f"{one.path}/.lock"))
        for problem in problems:
            print(printable(f"problem: {problem}"))
    raise typer.Exit(WRONG if problems or any(one.damage for one in surveys) else 0)


def _tell(found: "Survey", process: int) -> None:
    """Print what is known about a directory, and its damage."""
    owner = found.owner
    whose = "not formatted" if owner.broker_id is None else f"broker {owner.broker_id} of cluster {owner.cluster_id}"
    ended = (
        "stopped cleanly"
        if found.stopped_cleanly
        else "not stopped cleanly: the next start checks what was not flushed"
    )
    print(printable(f"{found.path}: {whose}; {_used(process).removeprefix(', ') or ended}"))
    print(f"  {found.partitions} partition(s), {found.segments} segment(s), {found.log_bytes:,} bytes of records")
    for name in found.set_aside:
        print(printable(f"  set aside: {name}"))
    for damage in found.damage[:PEOPLE_READ]:
        print(printable(f"  {damage.path.removeprefix(found.path + '/')}: byte {damage.position}: {damage.reason}"))
    if len(found.damage) > PEOPLE_READ:
        print(f"  and {len(found.damage) - PEOPLE_READ} more: --json prints all")
    if found.damage and process:
        print("  a broker is writing here: the newest batches may look cut off")
    print(f"  {len(found.damage)} damage(s)" if found.damage else "  no damage")


def _used(process: int) -> str:
    return f", in use by process {process}" if process else ""


def _load(config: Path) -> "BrokerConfig":
    """Return the settings of a broker. Raises OSError for a file that a broker would refuse."""
    from odradek.broker.config import ConfigError, load_config

    try:
        with heard_from("ERROR", "odradek.broker"):  # warnings about settings are for whoever starts the broker
            return load_config(str(config))
    except ConfigError as error:
        raise OSError(str(error)) from None
