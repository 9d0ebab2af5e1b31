"""`odradek up --secure`, and who gets in: our clients and commands, as the files say that it makes for them.

Foreign clients: test_foreign_clients.py.
"""

import json
import runpy
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import odradek
from odradek.cli import main as command_line
from odradek.testing.foreign.kafka_jars import KafkaJars
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.up import UpCluster

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster]
PLAIN = (
    "listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_client="plain-secret";'
)
TOKENS, TOPICS = "org.apache.kafka.tools.DelegationTokenCommand", "org.apache.kafka.tools.TopicCommand"
PATIENCE_MS = int(PATIENCE_SECONDS * 1000)
MECHANISMS = "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpCluster]:
    overrides = (MECHANISMS, PLAIN, "num.partitions=1")
    with UpCluster(tmp_path_factory.mktemp("secure"), 1, overrides, secure=True) as running:
        yield running


def settings(cluster: UpCluster, user: str = "client") -> dict[str, Any]:
    """As the file says, with all the time that a busy machine may need for a login."""
    found: dict[str, Any] = runpy.run_path(str(cluster.directory / "security" / f"{user}.py"))["settings"]
    return {"bootstrap_servers": cluster.bootstrap, "socket_connection_setup_timeout_ms": PATIENCE_MS, **found}


def odradek_command(cluster: UpCluster, user: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    config = cluster.directory / "security" / f"{user}.properties"
    command = [sys.executable, "-m", "odradek", *arguments, "--bootstrap-server", cluster.bootstrap]
    return subprocess.run(
        [*command, "--command-config", str(config)],
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_what_is_secret_is_for_its_owner_alone(cluster: UpCluster) -> None:
    files = [*(cluster.directory / "security").iterdir(), *(cluster.directory / "config").glob("broker-*.properties")]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files}
    assert set(modes.values()) == {0o600}, modes
    assert len(modes) == 12
    passwords = json.loads((cluster.directory / "security" / "users.json").read_text()).values()
    for log in (cluster.directory / "logs").iterdir():
        said = log.read_text()
        assert not [one for one in (*passwords, "plain-secret", "PRIVATE KEY") if one in said], log


def test_our_clients(cluster: UpCluster) -> None:
    with odradek.KafkaProducer(**settings(cluster)) as producer:
        for number in range(100):
            producer.send("ours", bytes(50_000) + str(number).encode())
    with odradek.KafkaConsumer("ours", group_id="o", auto_offset_reset="earliest", **settings(cluster)) as consumer:
        found = [next(consumer).value for _ in range(100)]
    assert [one[50_000:] for one in found] == [str(number).encode() for number in range(100)]


def test_the_consumer_of_kafka_0_8(cluster: UpCluster) -> None:
    """Its group is in ZooKeeper; the brokers it reads from want TLS and a login."""
    with odradek.KafkaProducer(**settings(cluster)) as producer:
        producer.send("connector", b"hello").result(PATIENCE_SECONDS)
    not_its = ("bootstrap_servers", "socket_connection_setup_timeout_ms")
    look = {name: text for name, text in settings(cluster).items() if name not in not_its}
    group: dict[str, Any] = {"group_id": "connectors", "auto_offset_reset": "smallest"}
    connector = odradek.ConsumerConnector.create(
        zookeeper_connect=cluster.zookeeper, consumer_timeout_ms=PATIENCE_MS, **group, **look
    )
    try:
        [stream] = connector.create_message_streams({"connector": 1})["connector"]
        assert next(iter(stream)).value == b"hello"
    finally:
        connector.shutdown()


def test_the_command_line_as_an_administrator_and_as_nobody(cluster: UpCluster) -> None:
    made = odradek_command(cluster, "admin", "topics", "create", "made", "--replication-factor", "1")
    assert made.returncode == 0, made.stderr
    sent = odradek_command(cluster, "client", "produce", "made", text="one\ntwo\n")
    assert sent.returncode == 0, sent.stderr
    read = odradek_command(cluster, "client", "consume", "made", "--from-beginning", "--max-messages", "2")
    assert read.stdout.split() == ["one", "two"], read.stderr
    denied = odradek_command(cluster, "client", "configs", "alter", "--broker-defaults", "--set", "log.retention.ms=1")
    assert denied.returncode == 1 and "authoriz" in denied.stderr.lower(), denied


def test_kafkas_tool_makes_a_token_and_a_java_client_and_ours_come_in_with_it(
    cluster: UpCluster, kafka: KafkaJars, tmp_path: Path
) -> None:
    bootstrap = ("--bootstrap-server", cluster.bootstrap)
    config = cluster.directory / "security" / "client.properties"
    tool = (TOKENS, *bootstrap, "--command-config", str(config))
    made = kafka.run(*tool, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:admin")
    table = made[made.index("MAXDATE") :].splitlines()
    token_id, hmac, owner, requester = next(line for line in table if "User:" in line).split()[:4]
    assert owner == requester == "User:client", made
    with odradek.KafkaAdminClient(**settings(cluster, "admin")) as admin:
        [found] = admin.describe_delegation_token(["User:client"])
        assert (found.token_id, found.password, found.renewers) == (token_id, hmac, ("User:admin",))
        assert hmac not in repr(found)
        renewed = admin.renew_delegation_token(found.hmac, 3_600_000)
        assert renewed < found.expiry_timestamp_ms
    jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{token_id}" password="{hmac}"'
    with_token = tmp_path / "token.properties"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("sasl.jaas.config")]
    with_token.write_text("\n".join([*lines, f"sasl.jaas.config={jaas} tokenauth=true;"]))
    kafka.run(TOPICS, *bootstrap, "--command-config", str(with_token), "--create", "--topic", "by-token")
    look = {name: text for name, text in settings(cluster).items() if not name.startswith("sasl_plain")}
    with odradek.KafkaAdminClient(sasl_jaas_config=f"{jaas} tokenauth=true;", **look) as by_token:
        assert "by-token" in by_token.list_topics()
        with pytest.raises(odradek.KafkaError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
            by_token.create_delegation_token()
    assert token_id in kafka.run(*tool, "--describe", "--owner-principal", "User:client")
    kafka.run(*tool, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    with odradek.KafkaAdminClient(**settings(cluster, "admin")) as admin:
        assert admin.describe_delegation_token() == []


def test_quotas_through_the_admin_client(cluster: UpCluster) -> None:
    with odradek.KafkaAdminClient(**settings(cluster, "admin")) as admin:
        entity = {"user": "slow", "client-id": None}
        admin.alter_client_quotas([odradek.ClientQuotaAlteration(entity, {"producer_byte_rate": 1000})])
        [found] = admin.describe_client_quotas({"user": "slow"})
        assert (found.entity, found.quotas) == (entity, {"producer_byte_rate": 1000.0})
        assert admin.describe_client_quotas({"user": odradek.QuotaMatch.ANY, "client-id": None}, strict=True) == [found]
        assert admin.describe_client_quotas({"user": odradek.QuotaMatch.ANY}, strict=True) == []
        with pytest.raises(odradek.KafkaError, match="INVALID_REQUEST"):
            admin.alter_client_quotas([odradek.ClientQuotaAlteration({"user": "slow"}, {"no_such_limit": 1})])
        admin.alter_client_quotas([odradek.ClientQuotaAlteration(entity, {"producer_byte_rate": None})])
        assert admin.describe_client_quotas() == []


@pytest.mark.parametrize("place", ["ZooKeeper", "brokers"])
def test_users_are_added_changed_and_deleted_while_the_cluster_runs(
    place: str, cluster: UpCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = [
        "--bootstrap-server",
        cluster.bootstrap,
        "--command-config",
        str(cluster.directory / "security" / "admin.properties"),
    ]
    where = ["--zookeeper", cluster.zookeeper] if place == "ZooKeeper" else admin

    def users(*arguments: str) -> tuple[int, str]:
        code = command_line.run(["users", *arguments, *where])
        said = capsys.readouterr()
        return code, said.out + said.err

    def listed() -> dict[str, list[str]]:
        code, said = users("list", "--json")
        assert code == 0
        return {one["user"]: one["mechanisms"] for one in json.loads(said)}

    def comes_in(mechanism: str, password: str) -> bool:
        look = {**settings(cluster), "sasl_plain_username": "ca rol", "sasl_plain_password": password}
        with odradek.KafkaAdminClient(**{**look, "sasl_mechanism": mechanism}) as admin:
            try:
                admin.describe_cluster()
            except odradek.KafkaError as error:
                assert "invalid credentials" in str(error)
                return False
        return True

    (tmp_path / "password").write_text("first\n")
    assert users("add", "ca rol", "--password-file", str(tmp_path / "password"))[0] == 0
    both = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert listed()["ca rol"] == both and listed()["admin"] == both
    wait_until(lambda: comes_in("SCRAM-SHA-512", "first"), "a new user")
    monkeypatch.setenv("ODRADEK_USER_PASSWORD", "second")
    assert users("add", "ca rol", "--mechanism", "scram-sha-256")[0] == 0
    wait_until(lambda: comes_in("SCRAM-SHA-256", "second"), "the new password")
    assert comes_in("SCRAM-SHA-512", "first"), "of the other mechanism it stays"
    assert users("delete", "ca rol", "--mechanism", "SCRAM-SHA-512")[0] == 0
    assert listed()["ca rol"] == ["SCRAM-SHA-256"]
    assert users("delete", "ca rol")[0] == 0
    assert "ca rol" not in listed()
    assert users("delete", "ca rol") == (
        1, "odradek: there is no user ca rol with SCRAM-SHA-256 or SCRAM-SHA-512\n",
    )  # fmt: skip
    wait_until(lambda: not comes_in("SCRAM-SHA-256", "second"), "the end of a user")


def test_users_says_what_is_wrong(
    cluster: UpCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_USER_PASSWORD", "")
    for arguments, code, said in (
        (["add", "u"], 2, "Invalid value for the password: it is empty"),
        (["add", "u", "--mechanism", "PLAIN"], 2, "'PLAIN' is not one of SCRAM-SHA-256, SCRAM-SHA-512"),
        (["add", "u", "--iterations", "100"], 2, "4096"),
        (["list", "--zk-tls-config-file", str(tmp_path / "missing")], 1, "missing"),
        (
            ["list", "--bootstrap-server", "127.0.0.1:9"],
            2,
            "--bootstrap-server: not together with the options for ZooKeeper",
        ),
    ):
        if "PLAIN" in arguments:
            monkeypatch.setenv("ODRADEK_USER_PASSWORD", "p")
        assert command_line.run(["users", *arguments, "--zookeeper", cluster.zookeeper]) == code, arguments
        assert said in capsys.readouterr().err
    (tmp_path / "file").write_text("zookeeper.set.acl=true\n")
    arguments = ["users", "list", "--zookeeper", cluster.zookeeper, "--zk-tls-config-file", str(tmp_path / "file")]
    assert command_line.run(arguments) == 1
    assert "ZooKeeper must know whose the znodes are" in capsys.readouterr().err


def test_nobody_else(cluster: UpCluster) -> None:
    look = settings(cluster) | {"request_timeout_ms": PATIENCE_MS, "default_api_timeout_ms": PATIENCE_MS}
    for change, said in (
        ({"sasl_plain_password": "wrong"}, "invalid credentials with SASL mechanism SCRAM-SHA-512"),
        ({"sasl_plain_username": "nobody"}, "invalid credentials with SASL mechanism SCRAM-SHA-512"),
        ({"ssl_cafile": None}, "certificate not accepted"),
    ):
        with pytest.raises(odradek.KafkaError, match=said), odradek.KafkaAdminClient(**{**look, **change}) as admin:
            admin.describe_cluster()
    plain = odradek.KafkaAdminClient(bootstrap_servers=cluster.bootstrap, request_timeout_ms=3000)
    with plain, pytest.raises(odradek.KafkaError):
        plain.describe_cluster()
