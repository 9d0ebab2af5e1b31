"""Two whole brokers on a virtual network that speak SASL_SSL to each other and to a client, logged in with SCRAM."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from odradek.aio import Admin, Consumer, Producer
from odradek.broker.config import Given, read_config
from odradek.broker.security.acl_store import AclStore
from odradek.broker.security.listener_security import BrokerSecurity
from odradek.client.admin.values import NewTopic
from odradek.client.errors import NoBrokerReachable
from odradek.local.secure import ADMIN, BROKER, CLIENT, SecureFiles
from odradek.protocol.errors import ErrorCode
from odradek.security.authority import Authority
from odradek.security.scram import encode_credential, new_credential
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.memory_zookeeper import MemoryZooKeeper
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.zk_schema.entity_settings import change_entity, stored_settings
from odradek.zk_schema.znodes.acls import ResourcePattern, ResourceType

AUTHORITY = Authority("Test CA")
CA = AUTHORITY.certificate.public_bytes(Encoding.PEM).decode()
PAIR = AUTHORITY.issue("brokers", hosts=["broker-0", "broker-1"])
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def overrides(password: str) -> dict[str, str]:
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",  # the name of a listener says nothing of what it speaks
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f'{MODULE} required username="{BROKER}" '
        f'password="{password}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": PAIR.key_pem().decode(),
        "ssl.keystore.certificate.chain": PAIR.chain_pem().decode(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{BROKER}",
        "min.insync.replicas": "2",
    }


def test_records_are_replicated_and_read_over_sasl_ssl(tmp_path: Path) -> None:
    files = SecureFiles.make(tmp_path / "security", 0)

    async def main(clock: VirtualClock) -> None:
        cluster = EmbeddedCluster(clock, 2, overrides(files.passwords[BROKER]))
        store = cluster.zookeeper.connect()
        await store.start(1000)
        await files.write_to(store, clock)
        settings: dict[str, Any] = {
            "bootstrap_servers": "broker-0:9092",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": BROKER,
            "sasl_plain_password": files.passwords[BROKER],
            "ssl_truststore_type": "PEM",
            "ssl_truststore_certificates": CA,
            "network": cluster.network.host("client"),
            "clock": clock,
        }
        as_client = {**settings, "sasl_plain_username": CLIENT, "sasl_plain_password": files.passwords[CLIENT]}
        async with cluster:
            async with Admin(**settings) as admin:
                await admin.create_topics([NewTopic("t", num_partitions=1, replication_factor=2)])
            async with Producer(**as_client) as producer:
                for number in range(20):
                    await (await producer.send("t", value=bytes(20_000) + bytes([number])))
            async with Consumer("t", auto_offset_reset="earliest", **as_client) as consumer:
                found = [(await anext(consumer)).value[20_000] for _ in range(20)]
            assert found == list(range(20))
            with pytest.raises(NoBrokerReachable, match="due to invalid credentials"):
                async with Admin(**{**as_client, "sasl_plain_password": "wrong"}) as admin:
                    await admin.describe_cluster()
            wrong = {**as_client, "sasl_plain_password": "wrong", "group_id": "g"}
            async with Consumer("t", **wrong) as consumer:
                with pytest.raises(NoBrokerReachable, match="due to invalid credentials") as refused:
                    await consumer.getmany(10_000)
                assert (refused.value.code, refused.value.retriable) == (ErrorCode.SASL_AUTHENTICATION_FAILED, False)
            del wrong["group_id"]
            async with Producer(**wrong) as producer:
                began_ms = clock.monotonic_ms()
                with pytest.raises(NoBrokerReachable, match="due to invalid credentials"):
                    await producer.send("t", b"")
                assert clock.monotonic_ms() - began_ms < 1_000

    run_virtual(main)


def test_what_was_changed_after_the_first_start_stays(tmp_path: Path) -> None:
    files = SecureFiles.make(tmp_path / "security", 0)

    async def main(clock: VirtualClock) -> None:
        store = MemoryZooKeeper(clock).connect()
        await store.start(1000)
        assert await files.write_to(store, clock) == ()
        first = {user: await stored_settings(store, f"users/{user}") for user in files.passwords}
        assert {one for settings in first.values() for one in settings} == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
        assert await files.write_to(store, clock) == ()
        assert {user: await stored_settings(store, f"users/{user}") for user in files.passwords} == first
        slow = {**first[CLIENT], "producer_byte_rate": "1000"}
        await change_entity(store, f"users/{CLIENT}", slow)
        rights, topics = AclStore(store, clock), ResourcePattern(ResourceType.TOPIC, "*")
        assert (await rights.read(topics)).acls
        await rights.update(topics, lambda found: frozenset())
        await change_entity(store, f"users/{ADMIN}", {})
        wrong = encode_credential(new_credential("SCRAM-SHA-512", "another", b"salt", 4096))
        await change_entity(
            store, f"users/{BROKER}", {**first[BROKER], "SCRAM-SHA-512": wrong, "request_percentage": "9"}
        )
        assert await files.write_to(store, clock) == (ADMIN,), "a user who was deleted is not made again, but named"
        assert await stored_settings(store, f"users/{ADMIN}") == {}
        assert await stored_settings(store, f"users/{CLIENT}") == slow
        assert not (await rights.read(topics)).acls
        brokers = await stored_settings(store, f"users/{BROKER}")
        assert brokers["SCRAM-SHA-512"] != wrong and brokers["request_percentage"] == "9", "or no broker could log in"
        await store.close()

    run_virtual(main)


def test_the_files_of_a_secure_cluster(tmp_path: Path) -> None:
    directory = tmp_path / "security"
    files = SecureFiles.make(directory, 2)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    again = SecureFiles.make(directory, 3)
    after = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert {name: after[name] for name in before} == before, "what is there is kept"
    assert after.keys() - before.keys() == {"broker-2.pem"}
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    assert directory.stat().st_mode & 0o777 == 0o700
    assert again.passwords == files.passwords and len(set(files.passwords.values())) == 3
    assert not any(password in repr(files) for password in files.passwords.values())
    settings = {"zookeeper.connect": "z:2181", "broker.id": "0", **files.broker_settings(0, 9092)}
    config, remarks = read_config([Given(*one, "up") for one in settings.items()])
    assert remarks == []
    security = BrokerSecurity(config, None, None, lambda *names: None)  # type: ignore[arg-type]
    assert security.listener("SASL_SSL") is not None
