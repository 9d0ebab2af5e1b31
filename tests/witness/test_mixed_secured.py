"""A broker of Kafka and one of ours that trust nobody: SASL_SSL, one SCRAM database, one set of access lists.

Their ZooKeeper speaks TLS and knows them by certificate; the znodes are theirs. Our clients log in to both, with every
mechanism. A listener without any of it is open for the fixture alone, which asks there whether a broker is up: nobody
has a right on it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

import odradek
from odradek.aio import Consumer, Producer
from odradek.broker.security.link_file import link_of_file
from odradek.client.admin.access_values import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourceType,
    ResourcePattern,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from odradek.client.admin.values import NewTopic
from odradek.local.ports import free_ports
from odradek.local.secure import SecureFiles
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.broker_process import BrokerProcess
from odradek.testing.foreign.kafka_jars import KafkaJars
from odradek.testing.foreign.kerberos import REALM, SERVICE, Kdc, kerberos
from odradek.testing.foreign.logins import MECHANISMS, Issuer, Login, module
from odradek.testing.foreign.stage import Stage
from odradek.testing.needs import lacking, need
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.registration import create_topmost_paths

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]
KAFKA, OURS = 0, 1
BROKERS = (KAFKA, OURS)
CHROOT = "/secured"
LISTENER = "safe"
READ, ALL = 1, 31
SECRETS = ("/config/users", "/config/brokers", "/delegation_token/tokens")


class SecuredZooKeeper:
    """Its clients have certificates."""

    def __init__(self, folder: Path, security: Path) -> None:
        self.port, tls_port = free_ports(2)
        self.connect = f"127.0.0.1:{tls_port}{CHROOT}"
        self._pair, self._ca = security / "broker-0.pem", security / "ca.pem"
        settings = {
            "secureClientPort": str(tls_port),
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(self._pair),
            "ssl.trustStore.location": str(self._ca),
            "ssl.clientAuth": "need",
            "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",  # Kafka asks for the former
        }
        self.server = EmbeddedZooKeeper(folder, self.port, settings=settings)

    def client_settings(self) -> dict[str, str]:
        """Return what every broker has: all show the same certificate, whose znodes are theirs in common."""
        return {
            "zookeeper.connect": self.connect,
            "zookeeper.set.acl": "true",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(self._pair),
            "zookeeper.ssl.keystore.type": "PEM",
            "zookeeper.ssl.truststore.location": str(self._ca),
            "zookeeper.ssl.truststore.type": "PEM",
        }


class Mixed:
    """The cluster, and who may log in."""

    def __init__(
        self, jars: KafkaJars, zookeeper: SecuredZooKeeper, files: SecureFiles, folder: Path, kdc: Kdc | None
    ) -> None:
        """Without `kdc` there is no GSSAPI."""
        self._files, self._issuer = files, Issuer(folder)
        self.safe = {broker: f"127.0.0.1:{port}" for broker, port in zip(BROKERS, free_ports(2), strict=True)}
        plain = module("PLAIN") + ' user_client="plain client" user_admin="plain admin";'
        common = {
            **files.common_settings((LISTENER,)),
            **zookeeper.client_settings(),
            **self._issuer.broker_settings(LISTENER),
            "listener.security.protocol.map": "PROBE:PLAINTEXT,SAFE:SASL_SSL",
            "inter.broker.listener.name": "SAFE",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"listener.name.{LISTENER}.plain.sasl.jaas.config": plain,
            f"listener.name.{LISTENER}.scram-sha-256.sasl.jaas.config": f"{module('SCRAM-SHA-256')};",
            "offsets.topic.replication.factor": "2",
            "min.insync.replicas": "2",
            "zookeeper.session.timeout.ms": "10000",  # nobody is killed here, and ours is to stay the controller
        }
        if kdc is not None:
            self._keytab = kdc.keytab("client", "client")
            common["sasl.enabled.mechanisms"] += ",GSSAPI"
            common["sasl.kerberos.service.name"] = SERVICE
            common[f"listener.name.{LISTENER}.gssapi.sasl.jaas.config"] = (
                f'{module("GSSAPI")} useKeyTab=true storeKey=true keyTab="{kdc.service_keytab()}" '
                f'principal="{SERVICE}/localhost@{REALM}";'
            )
        self.stages: dict[int, Stage] = {}
        plain_connect = f"127.0.0.1:{zookeeper.port}{CHROOT}"
        for broker in BROKERS:
            own = {"ssl.keystore.location": str(files.directory / f"broker-{broker}.pem")}
            stage = Stage(jars, plain_connect, folder / f"broker-{broker}", broker, {**common, **own})
            self.stages[broker] = stage
        self.lives: dict[int, BrokerProcess] = {}

    def start(self, broker: int) -> None:
        stage = self.stages[broker]
        listeners = f"PROBE://{stage.address},SAFE://{self.safe[broker]}"
        self.lives[broker] = (stage.kafka if broker == KAFKA else stage.odradek)(listeners=listeners)

    def close(self) -> None:
        for stage in self.stages.values():
            stage.close()

    def login(self, mechanism: str, user: str = "client", password: str = "") -> Login:
        if mechanism == "OAUTHBEARER":
            secret = str(self._issuer.token(user))
        elif mechanism == "GSSAPI":
            need("kerberos")
            secret = str(self._keytab)
        else:
            secret = password or (f"plain {user}" if mechanism == "PLAIN" else self._files.passwords[user])
        return Login(mechanism, user, secret, self._files.directory / "ca.pem")

    def look(self, broker: int, mechanism: str = "SCRAM-SHA-512", user: str = "client", password: str = "") -> Any:
        """Return settings of our clients, which begin at one broker."""
        given = {"bootstrap.servers": self.safe[broker], **self.login(mechanism, user, password).properties()}
        if mechanism == "GSSAPI":
            given["sasl.kerberos.domain.name"] = "localhost"  # Java has keys of one principal, which is not an address
        return {name.replace(".", "_"): text for name, text in given.items()}

    def admin(self, broker: int) -> odradek.KafkaAdminClient:
        return odradek.KafkaAdminClient(**self.look(broker, user="admin"))

    def comes_in(self, broker: int, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> bool:
        with odradek.KafkaAdminClient(**self.look(broker, mechanism, user, password)) as admin:
            try:
                admin.describe_cluster()
            except odradek.KafkaError as error:
                assert "invalid credentials" in str(error), error
                return False
        return True

    def in_sync(self, topic: str) -> bool:
        with self.admin(OURS) as admin:
            return set(admin.describe_topics([topic])[0].partitions[0].isr) == set(BROKERS)


async def write_users(zookeeper: SecuredZooKeeper, files: SecureFiles, folder: Path) -> None:
    path = folder / "link.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in zookeeper.client_settings().items()))
    clock = LoopClock(asyncio.get_running_loop())
    store = KazooStore(zookeeper.connect, clock, link=link_of_file(str(path)))
    await store.start(PATIENCE_SECONDS * 1000)
    await create_topmost_paths(store)
    assert await files.write_to(store, clock) == ()
    await store.close()


@pytest.fixture(scope="module")
def secured_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecuredZooKeeper, SecureFiles]]:
    folder = tmp_path_factory.mktemp("secured-zookeeper")
    files = SecureFiles.make(folder / "security", len(BROKERS))
    zookeeper = SecuredZooKeeper(folder, files.directory)
    with asyncio.Runner() as runner:
        runner.run(zookeeper.server.start())
        runner.run(write_users(zookeeper, files, folder))
        yield zookeeper, files
        runner.run(zookeeper.server.stop())


@pytest.fixture(scope="module")
def mixed(
    kafka: KafkaJars,
    secured_zookeeper: tuple[SecuredZooKeeper, SecureFiles],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mixed]:
    with ExitStack() as stack:
        kdc = None
        if not lacking("kerberos"):
            kdc = stack.enter_context(kerberos(tmp_path_factory.mktemp("kerberos")))
        cluster = Mixed(kafka, *secured_zookeeper, tmp_path_factory.mktemp("mixed"), kdc)
        stack.callback(cluster.close)
        for broker in (OURS, KAFKA):
            cluster.start(broker)
        with cluster.admin(OURS) as admin:
            topics = [NewTopic(f"led-by-{one}", replica_assignments={0: [one, 1 - one]}) for one in BROKERS]
            admin.create_topics(topics)
        for one in BROKERS:
            wait_until(lambda: cluster.in_sync(f"led-by-{one}"), "both in sync")  # noqa: B023
        yield cluster


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "GSSAPI"])
@pytest.mark.parametrize("broker", BROKERS, ids=["kafka", "ours"])
def test_our_clients_come_in(mixed: Mixed, broker: int, mechanism: str) -> None:
    """Blocking, on asyncio, and the admin client: what is written with acks=all has gone through both makes."""
    look, topic, value = mixed.look(broker, mechanism), f"led-by-{broker}", f"{broker} {mechanism}".encode()
    with odradek.KafkaProducer(**look) as producer:
        assert producer.send(topic, value).result(PATIENCE_SECONDS).offset >= 0
    with odradek.KafkaConsumer(topic, auto_offset_reset="earliest", **look) as consumer:
        assert value in iter(lambda: next(consumer).value, None)

    async def main() -> None:
        async with Producer(**look) as producer:
            await (await producer.send(topic, value + b" aio"))
        group = f"{broker}-{mechanism}"
        async with Consumer(topic, group_id=group, auto_offset_reset="earliest", **look) as consumer:
            while (await anext(consumer)).value != value + b" aio":
                pass
            await consumer.commit()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))
    with odradek.KafkaAdminClient(**look) as admin:
        assert {node.node_id for node in admin.describe_cluster().nodes} == set(BROKERS)
        with pytest.raises(odradek.KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
            admin.alter_user_scram_credentials([UserScramCredentialDeletion("admin", ScramMechanism.SCRAM_SHA_256)])


@pytest.mark.parametrize("made_at", BROKERS, ids=["kafka", "ours"])
def test_users_and_rights_are_those_of_both(mixed: Mixed, made_at: int) -> None:
    other, user = 1 - made_at, f"user-of-{made_at}"
    topic = f"led-by-{other}"
    pattern = ResourcePattern(ACLResourceType.TOPIC, topic)
    may_write = ACL(f"User:{user}", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, pattern)
    with mixed.admin(made_at) as here, mixed.admin(other) as there:
        here.alter_user_scram_credentials([UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_256, "first")])
        wait_until(lambda: mixed.comes_in(other, user, "first"), "a user of the other broker")
        look = {**mixed.look(other, "SCRAM-SHA-256", user, "first"), "enable_idempotence": False}
        with odradek.KafkaProducer(**look) as producer:
            with pytest.raises(odradek.KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                producer.send(topic, b"too early").result(PATIENCE_SECONDS)
            here.create_acls([may_write])
            wait_until(lambda: there.describe_acls(may_write) == [may_write], "a right of the other broker")
            wait_until(lambda: is_written(producer, topic), "a write that is allowed")
            there.delete_acls([may_write])
            wait_until(lambda: not is_written(producer, topic), "the end of a right")
        changed = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_256, "second")
        there.alter_user_scram_credentials([changed])
        wait_until(lambda: mixed.comes_in(made_at, user, "second"), "a password of the other broker")
        wait_until(lambda: not mixed.comes_in(other, user, "first"), "the end of the password before")
        here.alter_user_scram_credentials([UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)])
        wait_until(lambda: not mixed.comes_in(other, user, "second"), "the end of a user")


def is_written(producer: odradek.KafkaProducer, topic: str) -> bool:
    try:
        producer.send(topic, b"x").result(PATIENCE_SECONDS)
    except odradek.KafkaError as error:
        assert "TOPIC_AUTHORIZATION_FAILED" in str(error), error
        return False
    return True


def test_either_is_the_controller_of_the_other(mixed: Mixed) -> None:
    with mixed.admin(KAFKA) as admin:
        assert admin.describe_cluster().controller_id == OURS
        mixed.lives[OURS].stop()
        wait_until(lambda: admin.describe_cluster().controller_id == KAFKA, "Kafka as the controller")
    mixed.start(OURS)
    for one in BROKERS:
        wait_until(lambda: mixed.in_sync(f"led-by-{one}"), "our broker in sync again")  # noqa: B023
    with odradek.KafkaProducer(**mixed.look(KAFKA)) as producer:
        assert producer.send("led-by-0", b"after").result(PATIENCE_SECONDS).offset > 0


def test_znodes_are_theirs(mixed: Mixed, secured_zookeeper: tuple[SecuredZooKeeper, SecureFiles]) -> None:
    """Whichever of the two has made a znode: the last test, when everything has been made."""
    nobody = KazooClient(f"127.0.0.1:{secured_zookeeper[0].port}{CHROOT}")
    nobody.start(PATIENCE_SECONDS)
    open_paths, readable, seen = set(), set(), 0
    try:
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            seen += 1
            try:
                acls, _ = nobody.get_acls(path)
                waiting += [f"{path.rstrip('/')}/{name}" for name in nobody.get_children(path)]
            except NoAuthError:
                assert path.startswith(SECRETS), path
                continue
            except NoNodeError:  # the controller has read what it told, and removed it
                continue
            by_owner = {one.id.scheme: one.perms for one in acls}
            assert by_owner.keys() <= {"x509", "world"}, acls
            readable.add(path)
            if by_owner.get("world") != READ:
                open_paths.add(path)
        assert not [path for path in readable if path.startswith(tuple(f"{one}/" for one in SECRETS))]
        assert seen > 50 and open_paths == {"/consumers"}
        with pytest.raises(NoAuthError):
            nobody.get("/config/users/client")
        with pytest.raises(NoAuthError):
            nobody.set("/brokers/topics/led-by-0", b"")
    finally:
        nobody.stop()
        nobody.close()
    ours = mixed.lives[OURS]
    assert not [line for line in ours.complaints() if " ERROR " in line or "Traceback" in line]
