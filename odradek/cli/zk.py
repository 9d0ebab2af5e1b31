"""`odradek zk ls PATH` and `odradek zk get PATH`: a look into the cluster's ZooKeeper."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.options import Json, ZooKeeperFile, new_app, zookeeper_link
from odradek.cli.output import print_json, print_table

if TYPE_CHECKING:
    from odradek.zk_schema.store import Stat, Store

DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
CONNECT_TIMEOUT_MS = 10_000
SESSION_TIMEOUT_MS = 10_000

zk = new_app("Look into the cluster's ZooKeeper.")
ZooKeeper = Annotated[str, typer.Option("--zookeeper", metavar="HOST:PORT/CHROOT")]


@zk.command("ls")
def ls(
    path: Annotated[str, typer.Argument()] = "/",
    zookeeper: ZooKeeper = DEFAULT_ZOOKEEPER,
    zk_tls_config_file: ZooKeeperFile = None,
    as_json: Json = False,
) -> None:
    """The names below a path, sorted; numbers by their value."""
    path = _absolute(path)

    async def read(store: "Store") -> None:
        names = sorted(await store.children(path), key=lambda name: (not name.isdigit(), name.rjust(20), name))
        if as_json:
            print_json(names)
            return
        for name in names:
            print(name)

    raise typer.Exit(_with_store(zookeeper, zk_tls_config_file, read))


@zk.command("get")
def get(
    path: Annotated[str, typer.Argument()],
    zookeeper: ZooKeeper = DEFAULT_ZOOKEEPER,
    zk_tls_config_file: ZooKeeperFile = None,
    as_json: Json = False,
) -> None:
    """A znode's data, JSON laid out, and what ZooKeeper knows of it."""
    path = _absolute(path)

    async def read(store: "Store") -> None:
        data, stat = await store.get(path)
        if as_json:
            print_json({"path": path, "data": decoded(data), "stat": _described(stat)})
            return
        content = decoded(data)
        print(content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False))
        print_table(("field", "value"), list(_described(stat).items()))

    raise typer.Exit(_with_store(zookeeper, zk_tls_config_file, read))


def decoded(data: bytes) -> Any:
    """JSON as its value, other text as text, bytes that are neither as their repr."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return repr(data)
    try:
        return json.loads(text)
    except ValueError:
        return text


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise typer.BadParameter(f"{path!r} does not begin with /", param_hint="PATH")
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


def _with_store(connect: str, file: Path | None, read: Callable[["Store"], Awaitable[None]]) -> int:
    """Connect, read, disconnect; the exit code."""
    from odradek.world.clock import LoopClock
    from odradek.zk_schema.kazoo_store import KazooStore
    from odradek.zk_schema.store import ConnectionLost, StoreError

    async def run() -> int:
        clock = LoopClock(asyncio.get_running_loop())
        store = KazooStore(
            connect, clock, session_timeout_ms=SESSION_TIMEOUT_MS, make_chroot=False, link=zookeeper_link(file)
        )
        try:
            await store.start(CONNECT_TIMEOUT_MS)
        except ConnectionLost:
            return _complain(f"no ZooKeeper answers at {connect}")
        try:
            await read(store)
        except StoreError as error:
            return _complain(str(error))
        finally:
            await store.close()
        return 0

    return asyncio.run(run())


def _complain(message: str) -> int:
    print(f"odradek zk: {message}", file=sys.stderr)
    return 1
