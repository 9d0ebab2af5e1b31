"""`odradek zk`: shows znodes of the cluster's ZooKeeper (`ls`, `get`); a file of them all (`export`, `import`)."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.options import Json, new_app
from odradek.cli.output import plain, print_json, print_table, printable
from odradek.cli.zookeeper import DEFAULT_ZOOKEEPER, ZooKeeper, ZooKeeperFile, with_store

if TYPE_CHECKING:
    from odradek.zk_schema.store import Stat, Store

zk = new_app("Look into the cluster's ZooKeeper; export and import its znodes.")


@zk.command("ls")
def ls(
    path: Annotated[str, typer.Argument()] = "/",
    zookeeper: ZooKeeper = DEFAULT_ZOOKEEPER,
    zk_tls_config_file: ZooKeeperFile = None,
    as_json: Json = False,
) -> None:
    """List the names below a path, sorted, numbers by value."""
    path = _absolute(path)

    async def read(store: "Store") -> None:
        names = sorted(await store.children(path), key=lambda name: (not name.isdigit(), name.rjust(20), name))
        if as_json:
            print_json(names)
            return
        for name in names:
            print(printable(name))

    with_store(zookeeper, zk_tls_config_file, read)


@zk.command("get")
def get(
    path: Annotated[str, typer.Argument()],
    zookeeper: ZooKeeper = DEFAULT_ZOOKEEPER,
    zk_tls_config_file: ZooKeeperFile = None,
    as_json: Json = False,
) -> None:
    """Show a znode's data, with JSON formatted, and its metadata."""
    path = _absolute(path)

    async def read(store: "Store") -> None:
        data, stat = await store.get(path)
        if as_json:
            print_json({"path": path, "data": decoded(data), "stat": _described(stat)})
            return
        content = decoded(data)
        text = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False)
        for line in text.split("\n"):
            print(printable(line))
        print_table(("field", "value"), list(_described(stat).items()))

    with_store(zookeeper, zk_tls_config_file, read)


@zk.command("export")
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="file to write")],
    zookeeper: ZooKeeper = DEFAULT_ZOOKEEPER,
    zk_tls_config_file: ZooKeeperFile = None,
) -> None:
    """Write a cluster's znodes to a file: topics, leaders, settings, users, access lists, offsets of old consumers.

    The file contains secrets and is readable by its owner only. It is exact if all brokers have stopped.
    """
    from odradek.zk_schema.backup import encode, read_znodes

    async def read(store: "Store") -> None:
        znodes = await read_znodes(store)
        if not znodes:  # perhaps the path is misspelled: the previous backup stays
            raise OSError(f"{zookeeper}: there is no cluster: nothing was written")
        text = "".join(f"{line}\n" for line in encode(znodes))
        said = f"{len(znodes)} znode(s) to {file}"
        if file.exists() and not file.is_file():  # a device or a pipe, which a rename would replace
            file.write_text(text, encoding="utf-8")
            print(said, file=sys.stderr)  # the file may be standard output itself
        else:
            _write_whole(file.resolve(), text)
            print(said)

    with_store(zookeeper, zk_tls_config_file, read)


def _write_whole(file: Path, text: str) -> None:
    """Write a file that only its owner can read, as a whole or not at all. Raises OSError."""
    unfinished = file.with_name(f"{file.name}.part")
    unfinished.unlink(missing_ok=True)  # whoever can read an old one could read the new one
    unfinished.touch(0o600, exist_ok=False)
    try:
        unfinished.write_text(text, encoding="utf-8")
    except OSError as error:  # which does not name the file
        unfinished.unlink()
        raise OSError(error.errno, error.strerror, str(file)) from None
    unfinished.rename(file)


@zk.command("import")
def import_znodes(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="file written by `odradek zk export`")],
    newer_logs: Annotated[
        bool, typer.Option("--newer-logs", help="the brokers' logs are newer than the file: start with higher epochs")
    ] = False,
    zookeeper: ZooKeeper = DEFAULT_ZOOKEEPER,
    zk_tls_config_file: ZooKeeperFile = None,
) -> None:
    """Restore the znodes of a file into a ZooKeeper, or a path of one, that has no cluster.

    Run this before any broker starts. With zookeeper.set.acl=true in --zk-tls-config-file the znodes get access lists.
    """
    from odradek.zk_schema.backup import NotABackup, NotEmpty, ahead, decode, write_znodes
    from odradek.zk_schema.znodes.json_data import BadZnode

    try:
        with file.open(encoding="utf-8") as lines:
            znodes = decode(lines)
        if newer_logs:
            znodes = ahead(znodes)
    except (NotABackup, BadZnode, UnicodeDecodeError) as error:
        raise OSError(f"{file}: {error}") from None

    async def write(store: "Store") -> None:
        try:
            await write_znodes(store, znodes)
        except NotEmpty as error:
            raise OSError(f"{zookeeper}: {error}: nothing was written") from None
        print(f"{len(znodes)} znode(s) from {file}")

    with_store(zookeeper, zk_tls_config_file, write, make_chroot=True)


def decoded(data: bytes) -> Any:
    """Return the value of JSON, other text as it is, and bytes that are neither as their repr.

    What only Python accepts as JSON (NaN), and what is nested too deeply to be written again, counts as text.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return repr(data)
    try:
        value = json.loads(text)
        json.dumps(plain(value), indent=2, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return value


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise typer.BadParameter(f"{path!r} does not begin with /", param_hint="PATH")
    if {".", ".."} & set(path.split("/")):
        raise typer.BadParameter(f"{path!r}: ZooKeeper knows neither . nor ..", param_hint="PATH")
    return path.rstrip("/") or "/"


def _described(stat: "Stat") -> dict[str, Any]:
    """Return a znode's metadata: times in ISO format, session ids as in ZooKeeper's log."""
    return {
        **stat._asdict(),
        "ephemeral_owner": f"0x{stat.ephemeral_owner:x}",
        "created_ms": _moment(stat.created_ms),
        "modified_ms": _moment(stat.modified_ms),
    }


def _moment(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")
