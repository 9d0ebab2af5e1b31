"""`odradek zk`: a look into the cluster's ZooKeeper (`ls`, `get`), and its znodes as a file (`export`, `import`)."""

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
    """List the names below a path, sorted; numbers by their value."""
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
        if not znodes:  # a path that is misspelled: the backup of before stays
            raise OSError(f"{zookeeper}: there is no cluster: nothing was written")
        text = "".join(f"{line}\n" for line in encode(znodes))
        said = f"{len(znodes)} znode(s) to {file}"
        if file.exists() and not file.is_file():  # a device or a pipe: a rename would put it away
            file.write_text(text, encoding="utf-8")
            print(said, file=sys.stderr)  # it may be the standard output itself
        else:
            _write_whole(file.resolve(), text)
            print(said)

    with_store(zookeeper, zk_tls_config_file, read)


def _write_whole(file: Path, text: str) -> None:
    """Write a file of its owner's, whole or not at all. Raises OSError."""
    unfinished = file.with_name(f"{file.name}.part")
    unfinished.unlink(missing_ok=True)  # whoever may read that would read this
    unfinished.touch(0o600, exist_ok=False)
    try:
        unfinished.write_text(text, encoding="utf-8")
    except OSError as error:  # which does not know of which file
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
    """JSON as its value, other text as text, bytes that are neither as their repr.

    What Python alone takes for JSON (NaN), and what is too deep to be written again, is text.
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
    """Describe a znode: times as people write them, session ids as ZooKeeper's log does."""
    return {
        **stat._asdict(),
        "ephemeral_owner": f"0x{stat.ephemeral_owner:x}",
        "created_ms": _moment(stat.created_ms),
        "modified_ms": _moment(stat.modified_ms),
    }


def _moment(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")
