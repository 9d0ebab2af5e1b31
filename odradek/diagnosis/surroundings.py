"""Connections of a command to ZooKeeper and to journals; where they are is read from the settings of brokers."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from odradek.aio import Admin
from odradek.client.admin.values import ConfigResource
from odradek.client.errors import ClientError
from odradek.diagnosis.facts import BrokerFacts, Facts, JournalFacts
from odradek.diagnosis.gathering import Gathering, Names, Scope
from odradek.diagnosis.shapes import JOURNAL, has_shape, is_readable
from odradek.diagnosis.watching import metrics_place
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.link import OPEN, Link
from odradek.zk_schema.store import Store, StoreError, ZooKeeperLoginRefused

CONNECT_MS = 3_000.0
SESSION_MS = 10_000
HTTP_S = 3.0
JOURNAL_BYTES_MAX = 64 << 20
ASK_MS = 10_000
FILE = re.compile(r"broker-(\d+)\.properties")


async def facts(
    settings: Mapping[str, str],
    bootstrap: str,
    zookeeper: str | None,
    scope: Scope | Callable[[Names], Scope],
    link: Link = OPEN,
) -> Facts:
    """Gather the facts of a cluster.

    `settings` are those of the client; `zookeeper`: its address, None to ask the brokers for it, "none" to do without;
    `link`: how to connect and log in there. Raises KafkaError when no broker answers, and what `scope` raises.
    """
    clock = LoopClock(asyncio.get_running_loop())
    async with admin(settings, bootstrap) as client, _zookeeper(client, zookeeper, clock, link) as (store, refusal):
        gathering = Gathering(client, store, read_journal, clock.now_ms(), bootstrap)
        found = await gathering.gather(scope, refusal)
        addresses = {broker.broker_id: broker.address for broker in found.brokers.values() if broker.registered}
        return replace(found, broker_files=broker_files(Path(), addresses))


@asynccontextmanager
async def admin(settings: Mapping[str, str], bootstrap: str) -> AsyncIterator[Admin]:
    """Give an admin client with short timeouts, since somebody waits for the command."""
    async with Admin(
        settings,
        bootstrap_servers=bootstrap,
        client_id="odradek-cli",
        request_timeout_ms=ASK_MS,
        default_api_timeout_ms=ASK_MS,
        socket_connection_setup_timeout_ms=CONNECT_MS,
    ) as client:
        yield client


async def check_may_see(settings: Mapping[str, str], bootstrap: str, name: str) -> None:
    """Check whether a topic or group with this name may exist but be hidden from the user, for lack of permission.

    Raises ClientError if so, with the permission that is missing.
    """
    topic = name.rpartition("-")[0] if name.rpartition("-")[2].isdigit() else name
    async with admin(settings, bootstrap) as client:
        for kind, hidden, question in (
            ("topic", ErrorCode.TOPIC_AUTHORIZATION_FAILED, lambda: client.describe_topics([topic])),
            ("group", ErrorCode.GROUP_AUTHORIZATION_FAILED, lambda: client.describe_groups([name])),
        ):
            try:
                async with asyncio.timeout(CONNECT_MS / 1000):
                    await question()
            except (KafkaError, TimeoutError) as error:
                if isinstance(error, KafkaError) and error.code is hidden:
                    said = f"you may not see {kind} {topic if kind == 'topic' else name!r}, if there is one: "
                    raise ClientError(said + f"Describe on that {kind} is missing") from None


@asynccontextmanager
async def _zookeeper(
    client: Admin, address: str | None, clock: LoopClock, link: Link
) -> AsyncIterator[tuple[Store | None, str]]:
    """Give a started store, or None with a clause that says why there is none; empty if none is wanted."""
    if address == "none":
        yield None, ""
        return
    hint = "" if address else "; --zookeeper HOST:PORT names an address that does"
    unreachable: list[str] = []
    async with aclosing(_only(address) if address else _zookeepers_of_brokers(client)) as places:
        async for place in places:
            store = KazooStore(place, clock, session_timeout_ms=SESSION_MS, make_chroot=False, link=link)
            try:
                await store.start(CONNECT_MS)
            except ZooKeeperLoginRefused:
                yield None, f"what ZooKeeper holds: the one at {place} refuses the login"
                return
            except StoreError:
                unreachable.append(place)
                continue
            try:
                yield store, ""
            finally:
                await store.close()
            return
    if unreachable:
        yield None, f"what ZooKeeper holds: none answers at {' or at '.join(unreachable)} from here{hint}"
    else:
        yield None, "what ZooKeeper holds: no broker says where it is; give it with --zookeeper HOST:PORT"


async def _only(address: str) -> AsyncGenerator[str]:
    yield address


async def _zookeepers_of_brokers(client: Admin) -> AsyncGenerator[str]:
    """Yield the `zookeeper.connect` of one broker after the other, each once: the next is asked only if it is needed.

    The first broker may be silent, or know ZooKeeper by an address that is of no use from here."""
    seen = {""}
    for node in (await client.describe_cluster()).nodes:
        resource = ConfigResource("BROKER", str(node.node_id))
        try:
            entries = (await client.describe_configs([resource]))[resource]
        except (KafkaError, OSError):
            continue
        for entry in entries:
            address = entry.value or ""
            if entry.name == "zookeeper.connect" and address not in seen:
                seen.add(address)
                yield address


async def read_journal(broker: BrokerFacts) -> JournalFacts | str:
    """Return the journal of a broker, read over HTTP, or a clause that says why it cannot be read."""
    if not broker.settings:
        return "its settings cannot be read, and they say where its journal is"
    place = metrics_place(broker.settings, broker.address)
    if place is None:
        return "it serves no journal (metrics.port is not set)"
    host, port = place
    try:
        async with asyncio.timeout(HTTP_S):
            told = json.loads(await get_page(host, port, "/journal"))
    except (OSError, TimeoutError, ValueError, RecursionError) as error:
        return f"its journal at {host}:{port} cannot be read from here ({error or 'no answer'})"
    entries = tuple(one for one in told["entries"] if is_readable(one)) if has_shape(told, JOURNAL) else ()
    if not has_shape(told, JOURNAL) or (told["entries"] and not entries):
        return f"the answer of {host}:{port} is not a journal"
    began_ms = told.get("began_ms", entries[0]["at_ms"] if entries else 0)
    unreadable = len(told["entries"]) - len(entries)
    return JournalFacts(broker.broker_id, began_ms, told["forgotten"], entries, unreadable)


async def get_page(host: str, port: int, path: str) -> bytes:
    """Return the body of the answer to a GET request. Raises OSError, and ValueError if the status is not 200 or the
    answer is longer than JOURNAL_BYTES_MAX."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        answer = await _read_whole(reader)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise ValueError(head.partition(b"\r\n")[0].decode("latin-1") or "it closed the connection")
    return body


async def _read_whole(reader: asyncio.StreamReader) -> bytes:
    try:
        await reader.readexactly(JOURNAL_BYTES_MAX)
    except asyncio.IncompleteReadError as ended:
        return ended.partial
    raise ValueError(f"more than {JOURNAL_BYTES_MAX:,} bytes")


def broker_files(folder: Path, addresses: Mapping[int, str]) -> dict[int, str]:
    """Return the properties files that `odradek up` has written below a folder, by broker; none if they belong to
    another cluster, which is seen by the addresses in them.

    `addresses`: addresses of the brokers that are registered.
    """
    found = {}
    for path in sorted((folder / "odradek-data" / "config").glob("broker-*.properties")):
        name = FILE.fullmatch(path.name)
        if name is not None:
            found[int(name.group(1))] = path
    try:
        known = [
            f"//{addresses[number]}" in path.read_text(errors="replace")
            for number, path in found.items()
            if number in addresses
        ]
    except OSError:  # files of another user
        return {}
    if not known or not all(known):
        return {}
    return {number: str(path.relative_to(folder)) for number, path in found.items()}
