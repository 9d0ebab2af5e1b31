"""Foreign clients on a cluster of `odradek up --secure`, each with every mechanism that brokers take, unmodified."""

import asyncio
import importlib
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import aiokafka
import aiokafka.abc
import aiokafka.conn
import confluent_kafka
import kafka as kafka_python
import pytest
from aiokafka.helpers import create_ssl_context
from kafka.net.sasl.oauth import AbstractTokenProvider

from odradek.testing.foreign.downloads import DownloadFailed, fetch
from odradek.testing.foreign.driver import DriverClient
from odradek.testing.foreign.interface import Record
from odradek.testing.foreign.kafka_jars import TOOLBOX, KafkaJars
from odradek.testing.foreign.kerberos import REALM, kerberos
from odradek.testing.foreign.logins import MECHANISMS, Issuer, Login, module
from odradek.testing.needs import CANNOT_BE_HAD, RUNTIMES, lacking, need
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.up import UpCluster

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster]
in_itself = pytest.mark.parametrize("mechanism", MECHANISMS)
"""For clients that know nothing of Kerberos as they are published."""
with_kerberos = pytest.mark.parametrize("mechanism", [*MECHANISMS, "GSSAPI"])
CLIENTS = Path(__file__).parents[1] / "clients"
CACHE = Path(__file__).parents[2] / ".cache"
ACLS, CONFIGS = "kafka.admin.AclCommand", "kafka.admin.ConfigCommand"
WRITE, READ = "kafka.tools.ConsoleProducer", "org.apache.kafka.tools.consumer.ConsoleConsumer"


class Secured:
    """The cluster, and who may log in to it."""

    def __init__(self, cluster: UpCluster, issuer: Issuer, keys: dict[str, Path]) -> None:
        self.bootstrap = cluster.bootstrap
        self.files = cluster.directory / "security"
        self._issuer, self._keys = issuer, keys

    def login(self, mechanism: str, user: str = "client") -> Login:
        if mechanism == "OAUTHBEARER":
            secret = str(self._issuer.token(user))
        elif mechanism == "PLAIN":
            secret = f"plain {user}"
        elif mechanism == "GSSAPI":
            need("kerberos")
            secret = str(self._keys[user])
        else:
            secret = json.loads((self.files / "users.json").read_text())[user]
        return Login(mechanism, user, secret, self.files / "ca.pem")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    issuer = Issuer(tmp_path_factory.mktemp("issuer"))
    users = 'user_client="plain client" user_admin="plain admin"'
    settings = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{module('PLAIN')} {users};",
        **issuer.broker_settings("sasl_ssl"),
        "num.partitions": "1",
    }
    keys: dict[str, Path] = {}
    with ExitStack() as stack:
        if not lacking("kerberos"):
            kdc = stack.enter_context(kerberos(tmp_path_factory.mktemp("kerberos")))
            keys = {user: kdc.keytab(user, user) for user in ("client", "admin")}
            kdc.run("kinit", "-k", "-t", str(keys["client"]), f"client@{REALM}")
            settings["sasl.enabled.mechanisms"] += ",GSSAPI"
            jaas = f'{module("GSSAPI")} useKeyTab=true storeKey=true keyTab="{kdc.service_keytab()}";'
            settings["listener.name.sasl_ssl.gssapi.sasl.jaas.config"] = jaas
        overrides = [f"{name}={text}" for name, text in settings.items()]
        cluster = UpCluster(tmp_path_factory.mktemp("secure"), 1, overrides, secure=True)
        yield Secured(stack.enter_context(cluster), issuer, keys)


@pytest.fixture(scope="module")
def kafkajs(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverClient]:
    need(*RUNTIMES["kafkajs"])
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    listing = (CLIENTS / "kafkajs" / "package.json").read_text()
    try:
        modules = fetch(CACHE / "kafkajs", "package.json", listing, command)
    except DownloadFailed as failed:
        pytest.skip(f"{CANNOT_BE_HAD}{failed}")
    driver = ["node", str(CLIENTS / "kafkajs" / "driver.js"), secured.bootstrap, str(modules)]
    client = DriverClient("kafkajs", driver, tmp_path_factory.mktemp("kafkajs") / "log")
    yield client
    client.close()


@pytest.fixture(scope="module")
def tool(secured: Secured, kafka: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Runs Kafka's tools, all in one Java; what one says that ends well."""
    command = kafka.program(TOOLBOX)
    driver = DriverClient("toolbox", command, tmp_path_factory.mktemp("toolbox") / "log")

    def run(main: str, *arguments: str, input: str = "") -> str:
        answer = driver.ask(
            "run", main=main, arguments=["--bootstrap-server", secured.bootstrap, *arguments], input=input
        )
        assert answer["code"] == 0, answer["said"]
        said: str = answer["said"]
        return said

    yield run
    driver.close()


@in_itself
def test_confluent_kafka(secured: Secured, mechanism: str) -> None:
    look = {"bootstrap.servers": secured.bootstrap, **secured.login(mechanism).librdkafka()}
    topic, failed = f"confluent-{mechanism}", []
    producer = confluent_kafka.Producer(look)
    producer.produce(topic, b"hello", on_delivery=lambda error, message: failed.append(error) if error else None)
    assert producer.flush(PATIENCE_SECONDS) == 0 and not failed
    consumer = confluent_kafka.Consumer({**look, "group.id": "c", "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE_SECONDS)
    assert message is not None and message.error() is None and message.value() == b"hello"
    consumer.close()


class Token(AbstractTokenProvider):
    """Token as kafka-python wants it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


class AwaitedToken(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    """Token as aiokafka wants it."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


@with_kerberos
def test_kafka_python(secured: Secured, mechanism: str) -> None:
    login, topic = secured.login(mechanism), f"kafka-python-{mechanism}"
    look = {"bootstrap_servers": secured.bootstrap, "ssl_cafile": str(login.authority), **login.python()}
    if mechanism == "OAUTHBEARER":
        look["sasl_oauth_token_provider"] = Token(login.token)
    producer = kafka_python.KafkaProducer(**look)
    producer.send(topic, b"hello").get(timeout=PATIENCE_SECONDS)
    producer.close()
    consumer = kafka_python.KafkaConsumer(topic, auto_offset_reset="earliest", group_id=topic, **look)
    assert next(consumer).value == b"hello"
    consumer.close()


@with_kerberos
def test_aiokafka(secured: Secured, monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    login, topic = secured.login(mechanism), f"aiokafka-{mechanism}"
    if mechanism == "GSSAPI":  # it looks for the package when it is loaded, which was before it came into the path
        monkeypatch.setattr(aiokafka.conn, "gssapi", importlib.import_module("gssapi"))
    context = create_ssl_context(cafile=str(login.authority))
    look = {"bootstrap_servers": secured.bootstrap, "ssl_context": context, **login.python()}

    async def main() -> None:
        if mechanism == "OAUTHBEARER":
            look["sasl_oauth_token_provider"] = AwaitedToken(login.token)
        async with aiokafka.AIOKafkaProducer(**look) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with aiokafka.AIOKafkaConsumer(topic, auto_offset_reset="earliest", **look) as consumer:
            assert (await consumer.getone()).value == b"hello"

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))


@with_kerberos
def test_kcat(secured: Secured, mechanism: str) -> None:
    need("kcat")
    if mechanism == "GSSAPI":
        need("sasl-gssapi")
    if mechanism == "OAUTHBEARER":
        command = ["kcat", "-b", secured.bootstrap, "-L", "-m", f"{PATIENCE_SECONDS:.0f}"]
        command += ["-Xsecurity.protocol=SASL_SSL", f"-Xssl.ca.location={secured.login('PLAIN').authority}"]
        command += ["-Xsasl.mechanism=OAUTHBEARER"]
        command += ["-Xenable.sasl.oauthbearer.unsecure.jwt=true", "-Xsasl.oauthbearer.config=principal=admin"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as asking:
            assert asking.stderr is not None
            refused = any("invalid_token" in line for line in asking.stderr)
            asking.kill()  # it would try again and again
        assert refused, "it cannot come by a signed token"
        return
    settings = [f"-X{name}={text}" for name, text in secured.login(mechanism).librdkafka().items()]
    if mechanism == "SCRAM-SHA-512":
        settings = ["-F", str(secured.files / "client.librdkafka")]
    command = ["kcat", "-b", secured.bootstrap, *settings, "-t", f"kcat-{mechanism}"]
    subprocess.run([*command, "-P"], input=b"hello\n", timeout=PATIENCE_SECONDS, check=True)
    found = subprocess.run([*command, "-C", "-c", "1"], capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    assert found.stdout == b"hello\n"


@in_itself
def test_kafkajs(secured: Secured, kafkajs: DriverClient, mechanism: str) -> None:
    topic = f"kafkajs-{mechanism}"
    kafkajs.ask("secure", **secured.login(mechanism).kafkajs())
    records = [Record(b"key", b"hello", (), 1_600_000_000_000)]
    kafkajs.produce(topic, "none", records)
    assert kafkajs.consume(topic, 1) == records


@with_kerberos
def test_kafkas_console_tools(secured: Secured, tool: Callable[..., str], tmp_path: Path, mechanism: str) -> None:
    config, topic = str(secured.login(mechanism).java_file(tmp_path)), f"java-{mechanism}"
    tool(WRITE, "--producer.config", config, "--topic", topic, input="one\ntwo\n")
    read = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--group", topic)
    said = tool(READ, "--consumer.config", config, *read)
    assert "one\ntwo\n" in said and "Processed a total of 2 messages" in said


@with_kerberos
def test_kafkas_administrative_tools(
    secured: Secured, tool: Callable[..., str], tmp_path: Path, mechanism: str
) -> None:
    """Access lists, users and quotas; those of tokens are in test_secure_cluster.py."""
    as_admin = ("--command-config", str(secured.login(mechanism, "admin").java_file(tmp_path)))
    as_client = ("--command-config", str(secured.login(mechanism).java_file(tmp_path)))
    alice, topic = f"User:alice-{mechanism}", f"orders-{mechanism}"
    rule = ("--allow-principal", alice, "--operation", "Read", "--topic", topic)
    tool(ACLS, *as_admin, "--add", *rule)
    allowed = f"(principal={alice}, host=*, operation=READ, permissionType=ALLOW)"
    assert allowed in tool(ACLS, *as_admin, "--list", "--topic", topic)
    with pytest.raises(AssertionError, match="ClusterAuthorizationException"):
        tool(ACLS, *as_client, "--add", *rule)
    tool(ACLS, *as_admin, "--remove", "--force", *rule)
    assert allowed not in tool(ACLS, *as_admin, "--list", "--topic", topic)
    bob = ("--entity-type", "users", "--entity-name", f"bob-{mechanism}")
    tool(CONFIGS, *as_admin, *bob, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=4096,password=secret]")
    tool(CONFIGS, *as_admin, *bob, "--alter", "--add-config", "producer_byte_rate=1024")
    said = tool(CONFIGS, *as_admin, *bob, "--describe")
    assert "producer_byte_rate=1024.0" in said and "SCRAM-SHA-512=iterations=4096" in said
