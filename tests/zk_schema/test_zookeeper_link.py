"""A ZooKeeper that speaks TLS and knows its clients by SASL, and znodes that belong to brokers alone."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from kazoo.client import KazooClient

from odradek import ConsumerConnector
from odradek.broker.security.link_file import link_of_file
from odradek.client.errors import ClientError, ConfigError
from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.security.authority import Authority
from odradek.security.errors import BadSecuritySetting
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.kazoo_store.client import acl_of
from odradek.zk_schema.link import OPEN, Link, is_open, is_sensitive
from odradek.zk_schema.lost_answers import in_any_session
from odradek.zk_schema.registration import create_topmost_paths
from odradek.zk_schema.store import (
    Connected,
    ConnectionLost,
    Create,
    Expired,
    NotAuthorized,
    SessionExpired,
    StoreEvent,
    Suspended,
    WatchFired,
    WatchKind,
    ZooKeeperLoginRefused,
    ZooKeeperWantsALogin,
)

START_MS = PATIENCE_SECONDS * 1000
SESSION_MS = 60_000
"""More than any busy machine uses up."""
LOGIN = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="broker" password="secret";'


class Secured:
    """The server, and files for its clients."""

    def __init__(self, directory: Path, **more: str) -> None:
        """`more`: settings of the server, `_` for `.`."""
        self.directory = directory
        authority = Authority("ZooKeeper's CA")
        self.ca = self._write("ca.pem", authority.certificate.public_bytes(Encoding.PEM))
        self.strange_ca = self._write("strange.pem", Authority("Another").certificate.public_bytes(Encoding.PEM))
        pair = authority.issue("zookeeper", hosts=["localhost", "127.0.0.1"])
        key_store = self._write("server.pem", pair.key_pem() + pair.chain_pem())
        pair = authority.issue("broker")
        self.client = self._write("client.pem", pair.key_pem() + pair.chain_pem())
        jaas = self._write(
            "jaas.conf",
            b'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_broker="secret"; };',
        )
        port, self.tls_port = free_ports(2)
        settings = {
            "secureClientPort": str(self.tls_port),
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": key_store,
            "ssl.trustStore.location": self.ca,
            "ssl.clientAuth": "want",
            "maxSessionTimeout": str(SESSION_MS),
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        flags = [f"-Djava.security.auth.login.config={jaas}"]
        self.server = EmbeddedZooKeeper(directory, port, settings=settings, java_flags=flags)

    def _write(self, name: str, data: bytes) -> str:
        path = self.directory / name
        path.write_bytes(data)
        return str(path)

    def link(self, **changes: str) -> Link:
        """Settings, `_` for `.`, as a tool's file has them."""
        given = {
            "zookeeper_ssl_client_enable": "true",
            "zookeeper_ssl_truststore_location": self.ca,
            "zookeeper_sasl_jaas_config": LOGIN,
            "zookeeper_set_acl": "true",
            **changes,
        }
        lines = [f"{name.replace('_', '.')}={text}" for name, text in given.items()]
        return link_of_file(self._write("link.properties", "\n".join(lines).encode()))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with asyncio.Runner() as runner:
        runner.run(made.server.start())
        yield made
        runner.run(made.server.stop())


def play(work: Callable[[LoopClock], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await work(LoopClock(asyncio.get_running_loop()))

    asyncio.run(main())


def acls(secured: Secured, chroot: str, paths: list[str]) -> dict[str, set[tuple[str, int]]]:
    """Who may do what with znodes, which the broker alone may read of them all."""
    options = {"mechanism": "DIGEST-MD5", "username": "broker", "password": "secret"}
    client = KazooClient(secured.server.connect + chroot, sasl_options=options)
    client.start(PATIENCE_SECONDS)
    try:
        return {
            path: {(f"{one.id.scheme}:{one.id.id}", one.perms) for one in client.get_acls(path)[0]} for path in paths
        }
    finally:
        client.stop()
        client.close()


READ, ALL = 1, 31
EVERYBODY = {("world:anyone", ALL)}
OURS = {("sasl:broker", ALL)}
READABLE = OURS | {("world:anyone", READ)}


@pytest.mark.zookeeper
def test_znodes_are_the_brokers_and_secrets_cannot_be_read(secured: Secured) -> None:
    async def work(clock: LoopClock) -> None:
        store = KazooStore(f"localhost:{secured.tls_port}/a/chroot", clock, link=secured.link())
        await store.start(START_MS)
        await create_topmost_paths(store)
        await store.create("/config/users/alice", b"{}")
        await store.multi([Create("/brokers/topics/t", b"x" * 200_000), Create("/config/brokers/0")])
        assert len((await store.get("/brokers/topics/t"))[0]) == 200_000
        found = await asyncio.gather(*(store.get("/brokers/topics/t") for _ in range(20)))
        assert {len(data) for data, _ in found} == {200_000}
        stranger = KazooStore(f"{secured.server.connect}/a/chroot", clock)
        await stranger.start(START_MS)
        assert (await stranger.get("/brokers/topics/t"))[0]
        with pytest.raises(NotAuthorized):
            await stranger.create("/brokers/ids/1")
        with pytest.raises(NotAuthorized):
            await stranger.set("/brokers/topics/t", b"")
        with pytest.raises(NotAuthorized):
            await stranger.get("/config/users/alice")
        await stranger.create("/consumers/g")
        await stranger.close()
        await store.close()

    play(work)
    paths = ["", "/consumers", "/brokers/ids", "/brokers/topics/t", "/config/users", "/config/users/alice",
             "/config/brokers/0", "/config/topics"]  # fmt: skip
    found = acls(secured, "/a/chroot", [path or "/" for path in paths])
    assert found == {
        "/": READABLE, "/consumers": EVERYBODY, "/brokers/ids": READABLE, "/brokers/topics/t": READABLE,
        "/config/users": OURS, "/config/users/alice": OURS, "/config/brokers/0": OURS, "/config/topics": READABLE,
    }  # fmt: skip


@pytest.mark.zookeeper
def test_a_certificate_is_a_name_too(secured: Secured) -> None:
    async def work(clock: LoopClock) -> None:
        link = secured.link(zookeeper_sasl_jaas_config="", zookeeper_ssl_keystore_location=secured.client)
        store = KazooStore(f"127.0.0.1:{secured.tls_port}/by-certificate", clock, link=link)
        await store.start(START_MS)
        await store.create("/mine")
        await store.close()

    play(work)
    assert acls(secured, "/by-certificate", ["/mine"]) == {"/mine": {("x509:CN=broker", ALL), ("world:anyone", READ)}}


@pytest.mark.zookeeper
def test_a_server_that_is_not_believed_and_a_wrong_password(secured: Secured) -> None:
    async def work(clock: LoopClock) -> None:
        for connect, link in (
            (f"localhost:{secured.tls_port}", secured.link(zookeeper_ssl_truststore_location=secured.strange_ca)),
            (f"127.0.0.2:{secured.tls_port}", secured.link()),
        ):
            store = KazooStore(connect, clock, link=link)
            with pytest.raises(ConnectionLost):
                await store.start(1500)
        wrong = replace(secured.link(), password="wrong")
        for chroot in ("", "/nobody"):
            store = KazooStore(f"localhost:{secured.tls_port}{chroot}", clock, link=wrong)
            with pytest.raises(ZooKeeperLoginRefused):
                await store.start(START_MS)

    play(work)


@pytest.mark.zookeeper
def test_tls_with_the_port_that_has_none_is_told_from_other_troubles(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    """It was "[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol"."""

    async def work(clock: LoopClock) -> None:
        store = KazooStore(secured.server.connect, clock, link=secured.link())
        with pytest.raises(ConnectionLost):
            await store.start(1500)
        await store.close()

    play(work)
    said = "no TLS with ZooKeeper at 127.0.0.1: it hangs up: zookeeper.connect has to name its port for TLS"
    assert [one for one in caplog.messages if one.startswith(said)]


@pytest.mark.zookeeper
def test_a_server_that_wants_a_login_says_so_to_who_has_none_or_a_wrong_one(tmp_path: Path) -> None:
    """A wrong password was the end of kazoo's thread, a traceback, and a start that waited for its whole time limit."""
    secured = Secured(tmp_path, enforce_auth_enabled="true", enforce_auth_schemes="sasl")

    async def work(clock: LoopClock) -> None:
        await secured.server.start()
        try:
            connect = f"localhost:{secured.tls_port}"
            wrong = KazooStore(connect, clock, link=replace(secured.link(), password="wrong"))
            with pytest.raises(ZooKeeperLoginRefused):
                await wrong.start(START_MS)
            nobody = KazooStore(
                connect, clock, link=secured.link(zookeeper_sasl_jaas_config="", zookeeper_set_acl="false")
            )
            await nobody.start(START_MS)
            with pytest.raises(ZooKeeperWantsALogin, match=r"wants a login \(zookeeper\.sasl\.jaas\.config\)"):
                await in_any_session(nobody, partial(nobody.create, "/mine"))  # it may hang up before it has said so
            await nobody.close()
        finally:
            await secured.server.stop()

    play(work)


@pytest.mark.zookeeper
def test_changes_of_the_time_away_are_told_after_the_next_login(secured: Secured) -> None:
    async def work(clock: LoopClock) -> None:
        def refuse(*_: Any, **__: Any) -> socket.socket:
            raise OSError("cut off by the test")

        link = secured.link()
        connect = f"localhost:{secured.tls_port}/away"
        store, other = (KazooStore(connect, clock, session_timeout_ms=SESSION_MS, link=link) for _ in range(2))
        await other.start(START_MS)
        await store.start(START_MS)
        await store.create("/w")
        await store.get("/w", watch=True)
        await store.children("/w", watch=True)
        events: asyncio.Queue[StoreEvent] = asyncio.Queue()
        store.subscribe(events.put_nowait)
        store._handler.create_connection = refuse  # type: ignore[method-assign]
        store._client._connection._socket.shutdown(socket.SHUT_RDWR)
        assert await events.get() == Suspended()
        await other.set("/w", b"1")
        await other.create("/w/child")
        del store._handler.create_connection
        assert await events.get() == Connected(store.session_id)
        assert await store.exists("/w/child") is not None  # what was told of the time away came before
        told = [events.get_nowait() for _ in range(events.qsize())]
        assert set(told) == {WatchFired(WatchKind.CHANGED, "/w"), WatchFired(WatchKind.CHILDREN, "/w")}
        await store.close()
        await other.close()

    play(work)


@pytest.mark.zookeeper
def test_a_login_that_is_refused_later_is_tried_again(secured: Secured) -> None:
    """The client knows the right password again by the second attempt: kazoo alone would never make one."""

    async def work(clock: LoopClock) -> None:
        store = KazooStore(f"localhost:{secured.tls_port}", clock, session_timeout_ms=4000, link=secured.link())
        events: asyncio.Queue[StoreEvent] = asyncio.Queue()
        store.subscribe(events.put_nowait)
        await store.start(START_MS)
        assert await events.get() == Connected(store.session_id)
        await store.create("/of-the-first-session", ephemeral=True)
        login = store._client._connection.sasl_options
        login["password"] = "wrong"
        store._client._connection._socket.shutdown(socket.SHUT_RDWR)
        assert [await events.get() for _ in range(2)] == [Suspended(), Expired()]
        with pytest.raises(SessionExpired):
            await store.exists("/")
        login["password"] = "secret"
        assert await events.get() == Connected(await store.until_connected())
        assert await store.exists("/of-the-first-session") is None
        await store.close()

    play(work)


def test_paths_with_secrets_and_the_one_that_is_everybodys() -> None:
    """As ZkData.sensitivePath and ZkData.defaultAcls of Kafka 3.9 say."""
    sensitive = ["/config/users", "/config/users/alice", "/config/brokers/0", "/delegation_token/tokens/x"]
    assert all(map(is_sensitive, sensitive))
    others = [
        "/config",
        "/config/topics/t",
        "/delegation_token",
        "/kafka-acl/Topic/t",
        "/brokers/ids/0",
        "/consumers/g",
    ]
    assert not any(map(is_sensitive, others))
    assert is_open("/consumers") and not is_open("/consumers/g")
    assert acl_of(OPEN, "/config/users") is None


def test_access_lists_need_a_name_and_logins_a_module(tmp_path: Path) -> None:
    for lines, said in (
        ("zookeeper.set.acl=true", "ZooKeeper must know whose the znodes are"),
        ("zookeeper.sasl.jaas.config=com.sun.Krb5LoginModule required;", "login module com.sun.Krb5LoginModule"),
        ('zookeeper.sasl.jaas.config=x.DigestLoginModule required username="u";', "username and password are needed"),
    ):
        (tmp_path / "file").write_text(lines)
        with pytest.raises(BadSecuritySetting, match=said):
            link_of_file(str(tmp_path / "file"))
    (tmp_path / "file").write_text("zookeeper.connect=somewhere")
    assert link_of_file(str(tmp_path / "file")) is OPEN
    (tmp_path / "file").write_text(f"zookeeper.sasl.jaas.config={LOGIN}")
    assert "secret" not in repr(link_of_file(str(tmp_path / "file")))


@pytest.mark.zookeeper
def test_a_consumer_of_kafka_08_comes_in_as_brokers_do(secured: Secured) -> None:
    """Its connection, that is: which znodes it makes is in tests/client/zookeeper."""
    server, user = f"localhost:{secured.tls_port}", "org.apache.zookeeper.server.auth.DigestLoginModule required"
    look = {"zookeeper.connect": server, "group.id": "g", "zookeeper.connection.timeout.ms": START_MS}
    tls = {"zookeeper.ssl.client.enable": True, "zookeeper.ssl.truststore.location": secured.ca}
    login = {"zookeeper.sasl.jaas.config": LOGIN, "zookeeper.set.acl": "true"}
    with ConsumerConnector.create({**look, **tls, **login}) as connector:
        assert connector.create_message_streams({"t": 1})["t"]
        paths = ["/consumers", "/consumers/g", "/consumers/g/ids"]
        assert acls(secured, "", paths) == {paths[0]: EVERYBODY, paths[1]: READABLE, paths[2]: READABLE}
        assert "secret" not in repr(connector._settings)
    for wrong, said in (
        ({}, "not reached"),
        ({**tls, "zookeeper.ssl.truststore.location": secured.strange_ca}, "not reached"),
    ):
        with pytest.raises(ClientError, match=said):
            ConsumerConnector.create({**look, **wrong, "zookeeper.connection.timeout.ms": 1500})
    guess = {"zookeeper.sasl.jaas.config": LOGIN.replace("secret", "wrong")}
    with pytest.raises(ClientError, match="refuses the login"):
        ConsumerConnector.create({**look, **tls, **guess})
    for bad, said in (
        ({**tls, "zookeeper.ssl.truststore.location": "/none"}, r"ssl\.truststore\.location: "),
        ({"zookeeper.sasl.jaas.config": f'{user} username="x";'}, "username and password are needed"),
        ({"zookeeper.set.acl": True}, "ZooKeeper must know whose the znodes are"),
        ({"zookeeper.ssl.crl.enable": True}, "cannot do that yet"),
    ):
        with pytest.raises(ConfigError, match=said):
            ConsumerConnector.create({**look, **bad})
