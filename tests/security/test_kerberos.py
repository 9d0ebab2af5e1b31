"""SASL GSSAPI against a key distribution center of the test's own: who comes in, and everybody who does not."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.aio import Admin, Consumer, Producer
from odradek.broker.security.kerberos_server import GssapiServer, KerberosAcceptor
from odradek.broker.security.sasl_listener import SaslListener
from odradek.client.admin.values import NewTopic
from odradek.client.errors import NoBrokerReachable
from odradek.security import sasl_client, session_endpoint
from odradek.security.errors import AuthenticationFailed, BadSecuritySetting, InvalidCredentials, NotNow
from odradek.security.jaas import parse_jaas
from odradek.security.kerberos import GssapiClient, KerberosKeys, KerberosUnreachable, kerberos_login
from odradek.security.logins import Login
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.foreign.kerberos import REALM, Kdc, kerberos
from odradek.testing.needs import need
from odradek.testing.patience import wait_until
from odradek.testing.virtual_clock import VirtualClock, run_virtual

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
HOSTS = ("localhost", "broker-0", "broker-1")


def no_setting(_: str) -> Any:
    return None


class Realm:
    """The realm of the tests, and the keys of those in it."""

    def __init__(self, kdc: Kdc) -> None:
        self.kdc = kdc
        self.kafka = kdc.keytab("kafka", *(f"kafka/{host}" for host in HOSTS))
        self.alice = kdc.keytab("alice", "alice", "alice/admin", "backup/store")

    def jaas(self, principal: str, keytab: Path, more: str = "") -> str:
        return f'{MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}" {more};'

    def login(self, principal: str = "alice", keytab: Path | None = None, **look: str) -> Login:
        settings = {name.replace("_", "."): text for name, text in look.items()}
        return kerberos_login(settings.get, parse_jaas(self.jaas(principal, keytab or self.alice)))

    def server(self, keytab: Path | None = None, principal: str = "kafka/localhost", *rules: str) -> GssapiServer:
        look = {"sasl.kerberos.principal.to.local.rules": rules}
        return KerberosAcceptor(look.get, parse_jaas(self.jaas(principal, keytab or self.kafka))).server()


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    need("kerberos")
    with kerberos(tmp_path_factory.mktemp("kerberos")) as kdc:
        yield Realm(kdc)


def talk(client: Any, server: GssapiServer, change: Callable[[int, bytes], bytes] = lambda _, token: token) -> None:
    """Carry messages until nobody has more to say; `change` may alter the client's, which are counted from 0."""
    message: bytes | None = client.first()
    number = 0
    while message is not None:
        answer = server.evaluate(change(number, message))
        message = client.respond(answer or b"")
        number += 1


def test_who_has_a_ticket_comes_in(realm: Realm) -> None:
    client, server = realm.login().new("localhost"), realm.server()
    talk(client, server)
    assert (server.principal, server.complete, client.complete) == ("alice", True, True)


def test_the_session_ends_with_the_ticket(realm: Realm) -> None:
    look: dict[str, Any] = {
        "sasl.enabled.mechanisms": ("GSSAPI",),
        "sasl.server.max.receive.size": 524_288,
        "gssapi.sasl.jaas.config": realm.jaas("kafka/localhost", realm.kafka),
    }
    listener = SaslListener(look.get, lambda *_: None, lambda *_: lambda _: None)  # type: ignore[arg-type,return-value]
    server = listener.server("GSSAPI")
    talk(realm.login().new("localhost"), server)  # type: ignore[arg-type]
    left_ms = listener.session_lifetime_ms(server, int(time.time() * 1000))
    assert left_ms is not None and 3_300_000 < left_ms <= 3_900_000, "an hour, and the clocks may differ by 5 minutes"


@pytest.mark.parametrize(
    ("principal", "rules", "user"),
    [
        ("alice", (), "alice"),
        ("backup/store", ("DEFAULT",), "backup"),
        ("alice/admin", ("RULE:[2:$1-$2]s/-admin/-the-admin/", "DEFAULT"), "alice-the-admin"),
        ("alice/admin", ("RULE:[1:$1]", "RULE:[2:$1@$0](.*@OTHER)s/@.*//"), None),
    ],
)
def test_names_become_users(realm: Realm, principal: str, rules: tuple[str, ...], user: str | None) -> None:
    server = realm.server(None, "kafka/localhost", *rules)
    client = realm.login(principal).new("localhost")
    if user is None:
        with pytest.raises(AuthenticationFailed, match="Authentication failed: "):
            talk(client, server)
        assert (server.complete, server.principal) == (False, "")
    else:
        talk(client, server)
        assert server.principal == user


def test_nobody_else_is_let_in(realm: Realm) -> None:
    """Each fails at the server, which says why in its own log alone."""

    def refused(
        server: GssapiServer,
        said: str,
        change: Callable[[int, bytes], bytes] = lambda _, token: token,
        host: str = "localhost",
    ) -> None:
        with pytest.raises(InvalidCredentials, match=said):
            talk(realm.login().new(host), server, change)
        assert not server.complete and not server.principal

    old_keys = realm.kdc.keytab("rekeyed", "kafka/rekeyed")
    realm.kdc.run("kadmin.local", "-q", f"ktadd -k {realm.kdc.folder}/newer.keytab kafka/rekeyed")
    refused(realm.server(old_keys, "kafka/rekeyed"), "kafka/rekeyed.* kvno 3 ", host="rekeyed")
    refused(realm.server(), "for kafka/broker-0@.* key for kafka/localhost@", host="broker-0")
    refused(realm.server(), "^Invalid token", lambda number, token: token if number else b"garbage")
    refused(realm.server(), "^Decrypt integrity check failed", lambda _, token: token[:-9] + bytes(9))
    refused(realm.server(), "an unexpected message", lambda number, token: b"x" if number == 1 else token)
    refused(realm.server(), "^Token header is malformed", lambda number, token: b"xyz" * 30 if number == 2 else token)
    refused(realm.server(), "^A token had an invalid Message Integrity Check", flipped)
    client = realm.login("kafka/rekeyed", old_keys)
    with pytest.raises(AuthenticationFailed, match=r"for kafka@localhost: .*(?i:preauth|password|integrity)"):
        client.new("localhost")


def flipped(number: int, token: bytes) -> bytes:
    return token[:-1] + bytes([token[-1] ^ 1]) if number == 2 else token


class Choosing:
    """Client that ends with a message of the test's."""

    def __init__(self, realm: Realm, choice: bytes) -> None:
        import gssapi

        keys = KerberosKeys(f"alice@{REALM}", str(realm.alice))
        self._client, self._choice = GssapiClient(gssapi, keys, "localhost"), choice

    def first(self) -> bytes:
        return self._client.first()

    def respond(self, challenge: bytes) -> bytes | None:
        context = self._client._context
        if not context.complete:
            return self._client.respond(challenge)
        return context.wrap(self._choice, False).message if challenge else None


def test_nobody_gets_a_security_layer(realm: Realm) -> None:
    for choice in (b"\2\0\xff\xff", b"\4\0\xff\xff", b"\7\0\0\0", b"\0\0\0\0", b"\1\0"):
        server = realm.server()
        with pytest.raises(InvalidCredentials, match="security layer"):
            talk(Choosing(realm, choice), server)
        assert not server.complete


def test_on_whose_behalf_does_not_matter(realm: Realm) -> None:
    """Kafka takes the name of the ticket, whatever the last message says; kafka-python gives the broker's."""
    server = realm.server()
    talk(Choosing(realm, b"\1\0\0\0kafka@localhost"), server)
    assert (server.complete, server.principal) == (True, "alice")


def test_a_copy_of_a_ticket_is_refused(realm: Realm) -> None:
    client = realm.login().new("localhost")
    assert realm.server().evaluate(client.first())
    with pytest.raises(NotNow, match="replay"):
        realm.server().evaluate(client.first())


def test_clocks_that_differ(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is two seconds old, where a second is allowed: as of a clock that is slow. And an old ticket."""
    cache = realm.kdc.folder / "short"
    realm.kdc.run("kinit", "-k", "-t", str(realm.alice), "-c", str(cache), "-l", "1s", f"alice@{REALM}")
    first = realm.login().new("localhost").first()
    strict = realm.kdc.write_config("strict.conf", "clockskew = 1")
    monkeypatch.setenv("KRB5_CONFIG", str(strict))
    server = realm.server()
    made = time.time()
    wait_until(lambda: time.time() - made > 2.1, "a second and more")
    with pytest.raises(InvalidCredentials, match=r"(?i)clock skew too great"):
        server.evaluate(first)
    from_cache = kerberos_login(no_setting, parse_jaas(f'{MODULE} useTicketCache=true ticketCache="{cache}";'))
    with pytest.raises(AuthenticationFailed, match=r"no ticket for kafka@localhost: .*(?i:expired)"):
        from_cache.new("localhost")


def test_what_a_client_lacks(realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(login: Login, said: str, kind: type[Exception] = AuthenticationFailed) -> None:
        with pytest.raises(kind, match=said):
            login.new("localhost")

    fails(realm.login(sasl_kerberos_service_name="zookeeper"), "no ticket.* for zookeeper@localhost: .*not found")
    fails(realm.login("nobody"), r"no ticket of nobody@ODRADEK\.TEST by the keys in .*alice\.keytab for kafka@")
    with pytest.raises(BadSecuritySetting, match=r"none cannot be read"):
        realm.login(keytab=tmp_path / "none")
    cache = tmp_path / "tickets"
    from_cache = kerberos_login(no_setting, parse_jaas(f'{MODULE} useTicketCache=true ticketCache="{cache}";'))
    fails(from_cache, "no ticket.* for kafka@localhost: ")
    realm.kdc.run("kinit", "-k", "-t", str(realm.alice), "-c", str(cache), f"alice@{REALM}")
    server = realm.server()
    talk(from_cache.new("localhost"), server)
    assert server.principal == "alice"
    elsewhere = realm.kdc.write_config("nowhere.conf")
    elsewhere.write_text(realm.kdc.config.read_text().replace("kdc = ", "kdc = 127.0.0.1:1\n#"))
    monkeypatch.setenv("KRB5_CONFIG", str(elsewhere))
    copied = tmp_path / "copied.keytab"  # or the ticket from before would do
    copied.write_bytes(realm.alice.read_bytes())
    assert issubclass(KerberosUnreachable, OSError)
    fails(realm.login(keytab=copied), "Cannot contact any KDC", KerberosUnreachable)


@pytest.mark.parametrize(
    ("jaas", "said"),
    [
        ('keyTab="{kafka}" principal="kafka/localhost";', "useKeyTab=true"),
        ('useKeyTab=true keyTab="/none" principal="kafka/localhost";', r"no keys of kafka/localhost in /none: "),
        ('useKeyTab=true keyTab="{kafka}" principal="kafka/other";', r"no keys of kafka/other in .*: "),
        ('useKeyTab=true keyTab="{kafka}" serviceName="x";', r"is kafka, but sasl\.jaas\.config has serviceName=x"),
    ],
)
def test_listeners_that_cannot_prove_themselves(realm: Realm, jaas: str, said: str) -> None:
    entry = parse_jaas(f"{MODULE} {jaas.format(kafka=realm.kafka)}")
    with pytest.raises(BadSecuritySetting, match=said):
        KerberosAcceptor({"sasl.kerberos.service.name": "kafka"}.get, entry)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gssapi", None)
    with pytest.raises(BadSecuritySetting, match=r"pip install odradek\[kerberos\]"):
        kerberos_login(no_setting, None)
    with pytest.raises(BadSecuritySetting, match=r"sasl\.enabled\.mechanisms: .*pip install odradek\[kerberos\]"):
        KerberosAcceptor(no_setting, None)


def test_two_brokers_and_their_clients(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records go from broker to broker, and sessions are begun again on the same connections (KIP-368)."""

    async def at_once(login: Login, host: str) -> Any:  # a virtual clock has no threads
        return login.new(host)

    monkeypatch.setattr(sasl_client, "in_thread", at_once)
    monkeypatch.setattr(session_endpoint, "in_thread", lambda login, host: Done(login.new(host)))
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "connections.max.reauth.ms": "3000",
        "min.insync.replicas": "2",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:kafka;User:alice",
        # The principal of each broker differs, so it is left out: whatever the key table has of the service.
        "listener.name.plaintext.gssapi.sasl.jaas.config": f'{MODULE} useKeyTab=true keyTab="{realm.kafka}";',
    }

    async def main(clock: VirtualClock) -> None:
        cluster = EmbeddedCluster(clock, 2, settings)
        look: dict[str, Any] = {
            "bootstrap_servers": "broker-0:9092",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_kerberos_keytab": str(realm.alice),
            "sasl_kerberos_principal": f"alice@{REALM}",
            "network": cluster.network.host("client"),
            "clock": clock,
        }
        async with cluster, Admin(**look) as admin, Producer(**look) as producer:
            await admin.create_topics([NewTopic("t", num_partitions=1, replication_factor=2)])
            before: list[int] = []
            async with Consumer("t", auto_offset_reset="earliest", **look) as consumer:
                for number in range(8):
                    await (await producer.send("t", str(number).encode()))
                    assert (await anext(consumer)).value == str(number).encode()
                    await asyncio.sleep(1.0)
                    if number == 2:
                        before = [broker.server.sockets.accepted.total() for broker in cluster.brokers]
                assert before == [broker.server.sockets.accepted.total() for broker in cluster.brokers]
            with pytest.raises(NoBrokerReachable, match=r"no ticket.* for kafka@broker-0"):
                async with Admin(**{**look, "sasl_kerberos_principal": f"nobody@{REALM}"}) as stranger:
                    await stranger.describe_cluster()

    run_virtual(main)


class Done:
    """Future that is done: what it is asked for at once, it calls back at once."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        callback(self)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return self._result
