"""`odradek why`, `doctor` and `transactions` on a cluster on sockets: what they print, and how they end."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from odradek import KafkaProducer
from odradek.aio import Admin
from odradek.cli import main as command_line
from odradek.cli import perf, top
from odradek.diagnosis import questions
from odradek.diagnosis.gathering import Gathering
from odradek.diagnosis.overview import Look, compare
from odradek.diagnosis.surroundings import broker_files, get_page
from odradek.diagnosis.watching import Watcher
from odradek.diagnosis.zookeeper import registrations
from odradek.local.ports import free_port_range
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.testing import Cluster
from odradek.testing.foreign.raw import RawConnection, place_of
from odradek.testing.patience import PATIENCE_SECONDS, UNHURRIED, wait_until
from odradek.testing.usual_requests import hanging_request

Capture = pytest.CaptureFixture[str]
NO_ZOOKEEPER = ["--zookeeper", "none"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers whose journals can be read: their metrics.port is a number with the broker's behind it."""
    tens = free_port_range(20) // 10 + 1
    hanging = {"transaction.partition.verification.enable": "false"}
    settings = UNHURRIED | hanging | {"metrics.port": f"{tens}{{}}"}
    with Cluster(brokers=3, topics={"flights": 2}, settings=settings, trace=False) as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def answers_may_take_long() -> Iterator[None]:
    """Whoever asks by hand would rather be told "not known" than wait for 150 s: that is no matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "ANSWER_S", PATIENCE_SECONDS)
        yield


def run(cluster: Cluster, capture: Capture, *arguments: str) -> tuple[int, list[str]]:
    """The exit code, and the lines of stdout or else of stderr."""
    code = command_line.run([*arguments, "--bootstrap-server", cluster.bootstrap])
    told = capture.readouterr()
    return code, (told.out or told.err).splitlines()


def test_what_is_well_is_told_so_with_what_the_journals_say(cluster: Cluster, capsys: Capture) -> None:
    code, lines = run(cluster, capsys, "why", "flights-1", *NO_ZOOKEEPER)
    assert code == 0 and lines[0].startswith("flights-1 is well: flights-1 led by ")
    assert any("flights-1 leader none → " in line and "(NewPartition)" in line for line in lines)
    assert any(line.strip().startswith("sent LeaderAndIsr to ") for line in lines)
    assert not any(line.startswith("not known") for line in lines)
    code, lines = run(cluster, capsys, "doctor", "--least", "degraded", *NO_ZOOKEEPER)
    assert (code, lines[-1][-11:]) == (0, "all is well")


def test_without_zookeeper_or_with_one_that_is_not_there_it_says_so(cluster: Cluster, capsys: Capture) -> None:
    code, lines = run(cluster, capsys, "why", "flights", "--history", "0", "--zookeeper", "127.0.0.1:1")
    assert code == 0 and lines[-1] == "not known: what ZooKeeper holds: none answers at 127.0.0.1:1 from here"


def knows_no_leader(address: str, topic: str) -> bool:
    with RawConnection(address) as connection:
        answer = connection.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 8)
    return answer.topics[0].partitions[0].leader_id == -1


def test_a_dead_broker_in_words_and_as_json(cluster: Cluster, capsys: Capture) -> None:
    dead = (cluster.controller() + 1) % 3
    cluster.create_topic("hotels", assignment={0: [dead], 1: [dead]})
    cluster.kill(dead)
    cluster.wait_for("hotels", leader=-1)
    try:
        for broker, address in enumerate(cluster.bootstrap.split(",")):  # they hear a moment later what ZooKeeper has
            wait_until(lambda: broker == dead or knows_no_leader(address, "hotels"), f"{broker} to know")  # noqa: B023
        code, lines = run(cluster, capsys, "why", "hotels-0", *NO_ZOOKEEPER)
        assert code == 0 and lines[0].startswith("stopped: hotels-0 has had no leader since ")
        assert f"its ISR was {{{dead}}}; broker {dead}'s session ended at " in lines[0]
        code, (line,) = run(cluster, capsys, "why", "hotels-0", "--json", *NO_ZOOKEEPER)
        (subject,) = json.loads(line)["subjects"]
        assert subject["findings"][0]["situation"] == "isr-died" and subject["events"]
        code, lines = run(cluster, capsys, "doctor", *NO_ZOOKEEPER)
        assert code == 4 and any(one.startswith(f"degraded: broker {dead} has been gone since ") for one in lines)
        assert any(one.startswith("stopped: hotels-0 ") and one.endswith(" [the same: hotels-1]") for one in lines)
        findings = [one for one in lines[:-1] if not one.startswith("not known")]
        assert any("__consumer_offsets-" in one for one in findings)
        assert not any(": __consumer_offsets-" in one for one in findings), "one's own topics are named first"
        places = sum(1 + one.count(", ", one.find("[the same: ")) for one in findings if "[the same: " in one)
        assert lines[-1].endswith(f": {len(findings)} finding(s), in {len(findings) + places} places")
        code, (line,) = run(cluster, capsys, "doctor", "--json", "--least", "stopped", *NO_ZOOKEEPER)
        assert {one["weight"] for one in json.loads(line)["findings"]} == {"STOPPED"} and code == 4
        code, (line,) = run(cluster, capsys, "doctor", "--json", *NO_ZOOKEEPER)
        weights = [one["weight"] for one in json.loads(line)["findings"]]
        assert code == 4 and weights[0] == "STOPPED" and weights == sorted(weights, key=ORDER.index)
    finally:
        cluster.restart(dead)
        cluster.wait_for("hotels", leader=dead)


ORDER = ["LOST", "STOPPED", "DEGRADED", "UNEVEN", "NOTE"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fligths", "odradek: no topic, partition, broker or group 'fligths': did you mean flights?"),
        ("flights-7", "odradek: topic flights has partitions 0 to 1, not 7"),
    ],
)
def test_what_is_not_there_is_one_line_and_1(name: str, said: str, cluster: Cluster, capsys: Capture) -> None:
    assert run(cluster, capsys, "why", name, *NO_ZOOKEEPER) == (1, [said])


def test_a_transaction_is_listed_and_one_that_hangs_is_ended(cluster: Cluster, capsys: Capture) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("flights", b"w", partition=0).result()
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("flights", b"x", partition=0).result()
        code, lines = run(cluster, capsys, "transactions", "list")
        assert code == 0 and "Ongoing" in lines[1]
        code, (line,) = run(cluster, capsys, "transactions", "list", "--json")
        (listed,) = json.loads(line)
        _, lines = run(cluster, capsys, "why", "flights-0", "--history", "0", *NO_ZOOKEEPER)
        assert any("the transaction of bills is Ongoing" in line for line in lines)
        number = str(listed["producer_id"])
        arguments = ["flights-0", "--producer-id", number, "--producer-epoch"]
        for where, epoch, opened in (("flights-0", "7", f"producer {number}, epoch 0"), ("flights-1", "0", "none")):
            code, (line,) = run(cluster, capsys, "transactions", "abort", where, *arguments[1:], epoch)
            said = f"no transaction of producer {number}, epoch {epoch} is open in {where}; open there: {opened}"
            assert (code, line) == (1, f"odradek: {said}")
        assert run(cluster, capsys, "transactions", "abort", *arguments, "0")[0] == 0
        _, lines = run(cluster, capsys, "why", "flights-0", "--history", "0", *NO_ZOOKEEPER)
        assert not any("transaction" in line for line in lines)
        assert run(cluster, capsys, "transactions", "hanging", "--json") == (0, ["[]"])
        producer.abort_transaction()


def test_a_transaction_that_no_coordinator_knows_is_listed_and_ended(cluster: Cluster, capsys: Capture) -> None:
    with RawConnection(place_of(cluster.bootstrap, "flights").leader) as connection:
        answer = connection.ask(hanging_request("flights", 999), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    code, (line,) = run(cluster, capsys, "transactions", "hanging", "--json")
    (found,) = json.loads(line)
    assert (code, found["producer_id"], found["topic_partitions"]) == (0, 999, [{"topic": "flights", "partition": 0}])
    code, lines = run(cluster, capsys, "transactions", "hanging")
    assert code == 0 and lines[1].split()[:3] == ["-", "not", "known"]
    arguments = ["flights-0", "--producer-id", "999", "--producer-epoch", "0"]
    assert run(cluster, capsys, "transactions", "abort", *arguments)[0] == 0
    assert run(cluster, capsys, "transactions", "hanging", "--json") == (0, ["[]"])


def test_top_once_in_words_and_as_json(cluster: Cluster, capsys: Capture) -> None:
    code, lines = run(cluster, capsys, "top", "--once", "--interval", "0.2")
    assert code == 0 and "partition(s)" in lines[0] and lines[2] == "brokers"
    assert lines[3].split() == [
        "BROKER",
        "ADDRESS",
        "LEADS",
        "REPLICAS",
        "UNDER-REPLICATED",
        "RECORDS/S",
        "IN/S",
        "OUT/S",
    ]
    assert all(line.endswith("bytes") for line in lines[4:7])  # their metrics.port tells them
    code, (line,) = run(cluster, capsys, "top", "--json", "--interval", "0.2")
    told = json.loads(line)
    assert code == 0 and len(told["brokers"]) == 3 and told["unanswered"] == [] and told["leaderless"] == []


def test_bytes_are_those_of_all_topics(cluster: Cluster) -> None:
    async def bytes_in() -> float:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            seen = await Watcher(admin, monotonic, get_page).look()
        assert seen.unanswered == () and len(seen.bytes) == 3
        return sum(taken for taken, _ in seen.bytes.values())

    before = asyncio.run(bytes_in())
    cluster.create_topic("weighed", partitions=1)
    for topic in ("flights", "weighed"):
        with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send(topic, bytes(1_000)).result(PATIENCE_SECONDS)
    assert asyncio.run(bytes_in()) - before > 2_000


def test_top_does_not_let_the_name_of_a_group_rule_the_terminal(capsys: Capture) -> None:
    seen = Look(0.0, 0, {}, (), {}, {}, (), ("group \x1b[2Jred: no answer",))
    top._print("b:1", compare(seen, seen), 10)
    assert capsys.readouterr().out.splitlines()[-1] == r"not known: group \x1b[2Jred: no answer"


def test_top_without_a_terminal_wants_once(cluster: Cluster, capsys: Capture) -> None:
    code, (line,) = run(cluster, capsys, "top")
    assert code == 2 and "give --once" in line


def test_levels_of_loggers_are_settings_like_others(cluster: Cluster, capsys: Capture) -> None:
    of_one = ["--broker-loggers", "0"]
    assert run(cluster, capsys, "configs", "alter", *of_one, "--set", "state.change.logger=DEBUG")[0] == 0
    _, (line,) = run(cluster, capsys, "configs", "describe", *of_one, "--json")
    assert {one["name"]: one["value"] for one in json.loads(line)}["state.change.logger"] == "DEBUG"
    assert run(cluster, capsys, "configs", "alter", *of_one, "--delete", "state.change.logger")[0] == 0


def test_offsets_are_reset_within_the_log_alone(cluster: Cluster, capsys: Capture) -> None:
    cluster.create_topic("trips", partitions=1)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("trips", b"x").result()
    reset = ["groups", "reset-offsets", "g", "--topic"]
    said = ["odradek: topic trips has partitions 0 to 0, not 7"]
    assert run(cluster, capsys, *reset, "trips:7", "--to-earliest") == (1, said)
    arguments = ["--to-offset", "5000", "--execute", "--json", "--bootstrap-server", cluster.bootstrap]
    assert command_line.run([*reset, "trips:0", *arguments]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out) == [{"topic": "trips", "partition": 0, "offset": 1}]
    assert told.err == "odradek groups: trips-0 has offsets 0 to 1, not 5000\n"


def test_a_command_is_given_so_that_a_shell_takes_any_name(cluster: Cluster, capsys: Capture) -> None:
    """Whoever may commit offsets chooses the name, and somebody else copies the line."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("flights", b"x", partition=0).result()
    name = "a; touch \x1b$HOME"
    arguments = ["groups", "reset-offsets", name, "--topic", "flights:0", "--to-earliest", "--execute"]
    assert run(cluster, capsys, *arguments)[0] == 0
    _, lines = run(cluster, capsys, "why", name, "--history", "0", *NO_ZOOKEEPER)
    assert "`odradek groups delete $'a; touch \\U0000001b$HOME' --bootstrap-server" in lines[0]


def test_what_no_request_can_hold_is_one_line(cluster: Cluster, capsys: Capture) -> None:
    for arguments, said in (
        (
            ["topics", "create", "huge", "--partitions", str(2**40)],
            "odradek: creating huge cannot be sent: a number is not in -2147483648 <= number <= 2147483647 (see",
        ),
        (["topics", "create", "huge", "--replication-factor", str(2**20)], "not in -32768 <= number <= 32767"),
        (["reassign", "start", f"flights-0={2**40}"], "not in -2147483648 <= number <= 2147483647"),
        (["groups", "describe", "no \udcff text"], "a group id has characters that UTF-8 cannot encode"),
    ):
        code, lines = run(cluster, capsys, *arguments)
        assert code == 2 and len(lines) == 1 and said in lines[0], lines


def test_what_was_done_of_a_command_that_failed_is_said(cluster: Cluster, capsys: Capture) -> None:
    """One of several names was wrong, and nothing told that the others are gone."""
    reset = ["groups", "reset-offsets", "left", "--topic", "flights", "--to-earliest", "--execute"]
    assert run(cluster, capsys, *reset)[0] == 0
    for arguments, done in (
        (["topics", "create", "flights", "half"], "; created: half"),
        (["reassign", "start", "half-0=1,2", "nope-0=1,2"], "; begun: half-0"),
        (["elect-leaders", "half-0", "nope-0"], "nope-0: The partition does not exist."),
        (["topics", "delete", "half", "nope"], "; deleted: half"),
        (["groups", "delete", "left", "nope"], "; deleted: left"),
    ):
        code, lines = run(cluster, capsys, *arguments)
        assert code == 1 and len(lines) == 1 and lines[0].endswith(done), lines


@pytest.mark.parametrize("name", ["nope-0", "flights-9"])
def test_a_transaction_of_no_partition_is_refused_at_once(cluster: Cluster, capsys: Capture, name: str) -> None:
    """It was waited for during half a minute."""
    abort = ["transactions", "abort", name, "--producer-id", "1", "--producer-epoch", "1"]
    code, (line,) = run(cluster, capsys, *abort)
    assert code == 1 and line in (
        "odradek: UNKNOWN_TOPIC_OR_PARTITION: topic nope: unknown topic or partition",
        "odradek: topic flights has partitions 0 to 1, not 9",
    )


def test_a_time_before_1970_is_the_beginning(cluster: Cluster, capsys: Capture) -> None:
    """-1 and -2 are times of that year, and Kafka's numbers for the ends of a log."""
    cluster.create_topic("old", partitions=1)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("old", b"first").get(PATIENCE_SECONDS)
    asked = ["groups", "reset-offsets", "g", "--topic", "old", "--json", "--to-datetime"]
    for time in ("1969-12-31T23:59:59.999+00:00", "1931-01-01T00:00:00"):
        code, lines = run(cluster, capsys, *asked, time)
        assert (code, json.loads(lines[0])[0]["offset"]) == (0, 0), (time, lines)


@pytest.mark.parametrize("command", [["consume"], ["perf", "consume", "--records", "1"]])
def test_who_reads_a_topic_that_is_not_there_makes_none(cluster: Cluster, capsys: Capture, command: list[str]) -> None:
    code, lines = run(cluster, capsys, *command, "fligths")
    assert code == 1 and lines[0].endswith("the cluster has no topic fligths")
    _, names = run(cluster, capsys, "topics", "list")
    assert "flights" in names and "fligths" not in names


def test_a_record_that_is_refused_ends_the_measuring_of_latency(
    cluster: Cluster, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a record that would never come."""
    monkeypatch.setattr(perf, "IDLE_LIMIT_SECONDS", 0.05)
    cluster.create_topic("narrow", partitions=1)
    alter = ["configs", "alter", "--topic", "narrow", "--set", "max.message.bytes=100"]
    assert run(cluster, capsys, *alter)[0] == 0
    code, lines = run(cluster, capsys, "perf", "latency", "narrow", "--size", "1000")
    assert code == 1 and "MESSAGE_TOO_LARGE" in lines[0]
    code, lines = run(cluster, capsys, "perf", "latency", "narrow", "--size", "1000", "--acks", "0")
    assert (code, lines) == (1, ["odradek: topic narrow: record 1, sent with acks=0, has not arrived"])


def test_batches_of_which_nobody_says_that_they_are_too_large_are_small(cluster: Cluster, capsys: Capture) -> None:
    cluster.create_topic("modest", partitions=1)
    alter = ["configs", "alter", "--topic", "modest", "--set", "max.message.bytes=20000"]
    assert run(cluster, capsys, *alter)[0] == 0
    assert run(cluster, capsys, "perf", "produce", "modest", "--records", "1000", "--acks", "0")[0] == 0
    assert run(cluster, capsys, "perf", "consume", "modest", "--records", "1000")[0] == 0


def test_latency_is_measured_with_the_settings_of_every_client(
    cluster: Cluster, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cluster asks for a login, its consumer asked without one."""
    (tmp_path / "client.properties").write_text("sasl.mechanism=PLAIN\n")

    def consumer(config: dict[str, str], **_: str) -> None:
        raise OSError(f"read with {config}")

    monkeypatch.setattr("odradek.client.consumer.client.KafkaConsumer", consumer)
    config = ["--command-config", str(tmp_path / "client.properties")]
    code, lines = run(cluster, capsys, "perf", "latency", "flights", *config)
    assert (code, lines) == (1, ["odradek: read with {'sasl.mechanism': 'PLAIN'}"])


def test_a_broker_that_is_not_there_is_named(cluster: Cluster, capsys: Capture) -> None:
    code, lines = run(cluster, capsys, "configs", "describe", "--broker", "9")
    assert (code, lines) == (1, ["odradek: broker 9: the other brokers do not know it: it is down, or does not exist"])


def test_files_of_up_are_named_where_they_are_of_this_cluster(tmp_path: Path) -> None:
    config = tmp_path / "odradek-data" / "config"
    config.mkdir(parents=True)
    for number, port in enumerate((9092, 9093)):
        (config / f"broker-{number}.properties").write_text(f"listeners=PLAINTEXT://127.0.0.1:{port}\n")
    files = {number: f"odradek-data/config/broker-{number}.properties" for number in (0, 1)}
    assert broker_files(tmp_path, {0: "127.0.0.1:9092"}) == files
    assert broker_files(tmp_path, {0: "127.0.0.1:9092", 1: "127.0.0.1:19093"}) == {}
    assert broker_files(tmp_path, {0: "broker-0:9092"}) == broker_files(tmp_path, {}) == {}
    (config / "broker-1.properties").write_bytes(b"listeners=PLAINTEXT://127.0.0.1:9093\n# caf\xe9\n")
    assert broker_files(tmp_path, {0: "127.0.0.1:9092", 1: "127.0.0.1:9093"}) == files
    (config / "broker-0.properties").write_bytes(bytes(range(256)))
    assert broker_files(tmp_path, {0: "127.0.0.1:9092", 1: "127.0.0.1:9093"}) == {}


def test_the_commands_of_a_way_out_are_for_a_cluster_that_asks_for_a_login(
    cluster: Cluster, capsys: Capture, tmp_path: Path
) -> None:
    """As they were printed no broker answered them."""
    cluster.create_topic("single", partitions=1, replicas=1)
    config = tmp_path / "its client.properties"
    config.write_text("client.id=somebody\n")
    for command in (["doctor"], ["why", "single-0", "--history", "0"]):
        _, lines = run(cluster, capsys, *command, *NO_ZOOKEEPER, "--command-config", str(config))
        ways = [one for one in lines if "has one replica" in one]
        assert ways and all(f"server {cluster.bootstrap} --command-config '{config}'`" in one for one in ways)
        assert "--command-config" not in str(run(cluster, capsys, *command, *NO_ZOOKEEPER)[1])


def test_doctor_asked_in_a_folder_that_is_gone(
    cluster: Cluster, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code, lines = run(cluster, capsys, "doctor", "--zookeeper", "none")
    assert code in (0, 3) and "broker(s)" in lines[-1]


def test_what_is_asked_again_as_a_broker_came_or_went_is_told_once(
    cluster: Cluster, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All was printed twice, and three times where another went: just when somebody wants to know why."""
    seen: list[dict[int, int]] = [{0: 1}, {0: 1, 1: 2}, {0: 1, 1: 2}, {0: 1, 1: 2}]

    async def registered(gathering: Gathering, read: object) -> dict[int, int] | None:
        return seen.pop(0) if read is registrations else None

    monkeypatch.setattr(Gathering, "_zookeeper", registered)
    code, lines = run(cluster, capsys, "why", "flights-1", "--history", "0", *NO_ZOOKEEPER)
    assert code == 0 and not seen and len(lines) == len(set(lines))
