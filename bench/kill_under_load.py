"""`kill -9` of a broker every 20 s under the transactions of other people's clients, on Odradek and on Apache Kafka.

    python bench/kill_under_load.py [--minutes 10] [--side odradek|kafka]… [--client NAME]… [--directory DIR]

Java's client 3.9.1 and the newest one (bench/exactly_once/Workers.java) and franz-go (main.go beside it) read one
topic, each in a group of its own with two workers, and write two records for each that they read, offsets and all in
transactions, of which every tenth is aborted on purpose. Meanwhile each reads what it has written, read_committed. The
brokers, three on either side, are killed in turn, and started again after ten seconds or, where ZooKeeper still knows
them, when it does not any more; the next is killed when that one serves. Both sides have the same settings; Kafka 3.9.1
comes from Maven, and starts from an archive of its classes.

In the end every record must have been processed exactly once, odradek.testing.transaction_history must find nothing,
and nobody may be stuck. Printed for each client: transactions that failed without being asked to, how many were
committed, and from each kill the time until both workers had begun and committed a transaction again. Exit code 1 for
an anomaly. Needs Java, Maven and Go.
"""

import argparse
import asyncio
import itertools
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import this_tree  # noqa: F401
from chaos_load import PARTITIONS, final_log
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.foreign.downloads import compiled
from odradek.testing.foreign.kafka_jars import KafkaJars, kafka_jars, kraft_jars
from odradek.testing.foreign.stage import Stage
from odradek.testing.load import QUIET, ask_again, end_of
from odradek.testing.patience import PATIENCE_SECONDS, wait_until
from odradek.testing.transaction_history import Outcome, Read, Transaction, anomalies

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "exactly_once"
CACHE = HERE.parent / ".cache"
BROKERS = (0, 1, 2)
CLIENTS = ("java-3.9", "java-4", "franz-go")
WORKERS = 2
EVERY_SECONDS, DOWN_SECONDS, PACE_SECONDS = 20.0, 10.0, 0.02
SOURCE = "orders"
SETTINGS = {
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.segment.bytes": "104857600",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "log.retention.check.interval.ms": "300000",
    "log.cleaner.backoff.ms": "15000",
    "log.cleaner.min.cleanable.ratio": "0.5",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "background.threads": "10",
}
"""What differs from the settings of Stage, most of it back to Kafka's defaults."""


class Client:
    """A client's program, and what it has said."""

    def __init__(self, name: str, command: Sequence[str], bootstrap: str, log: Path) -> None:
        self.name, self.target = name, f"bills-{name}"
        self.transactions: list[Transaction] = []
        self.places: dict[str, list[str]] = {}
        """Records of the source, as partition:offset, by transaction."""
        self.reads: list[Read] = []
        self.trouble = Counter[str]()
        self.failed = 0
        self.broken: list[str] = []
        self._said, self._log = log.open("w"), log.with_suffix(".warnings").open("w")
        self._process = subprocess.Popen(
            [*command, bootstrap, SOURCE, self.target, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.write(line)
            match line.rstrip("\n").split("\t"):
                case ["transaction", name, began_ms, ended_ms, outcome, places, trouble]:
                    self._take(name, int(began_ms) / 1000, int(ended_ms) / 1000, outcome, places.split(","), trouble)
                case ["read", partition, offset, value]:
                    self.reads.append(Read(int(partition), int(offset), value))
                case ["failed", _, trouble]:
                    self._note(trouble)
                case ["end"]:
                    return
                case fields:
                    self.broken.append(" ".join(fields))
        self.broken.append(f"{self.name} has ended by itself")

    def _take(self, name: str, began: float, ended: float, outcome: str, places: list[str], trouble: str) -> None:
        writes = [f"{name}/{place}/{letter}" for place in places for letter in "ab"]
        self.places[name] = places
        self.transactions.append(Transaction(name, began, writes, [], Outcome(outcome), ended))
        if trouble:
            self.failed += 1
            self._note(f"{outcome}: {trouble}")

    def _note(self, trouble: str) -> None:
        self.trouble[trouble.partition("; abort")[0][:110]] += 1

    @property
    def committed(self) -> list[Transaction]:
        return [one for one in list(self.transactions) if one.outcome is Outcome.COMMITTED]

    def recovered_s(self, killed: float) -> float:
        """Return how long after the kill each worker had begun a transaction and committed it; infinite if never."""
        first: dict[str, float] = {}
        for one in self.committed:
            if one.began >= killed:
                first.setdefault(one.name.rpartition(".")[0], one.ended)
        return max(first.values()) - killed if len(first) == WORKERS else float("inf")

    def finish(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._listener.join(PATIENCE_SECONDS)
        if self._listener.is_alive():
            self.broken.append(f"{self.name} does not end")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()
        self._said.close()
        self._log.close()

    def wrong(self, bootstrap: str, ends: Mapping[int, int]) -> list[str]:
        """Find everything that must not be, the whole log read once more."""
        log = final_log(bootstrap, self.target)
        found = [*self.broken, *map(str, anomalies(self.transactions, [self.reads], log, []))]
        times = Counter(value.partition("/")[2] for rows in log.values() for _, value in rows)
        wanted = {f"{p}:{offset}/{letter}" for p, end in ends.items() for offset in range(end) for letter in "ab"}
        found += [f"{one} is there {times[one]} times, not once" for one in sorted(wanted) if times[one] != 1]
        return found + [f"{one} is there, and no record of the source" for one in sorted(times.keys() - wanted)]


class Feeder(threading.Thread):
    """Writes to the source, one partition after the other, all of it acknowledged in the end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self._producer = Producer({**QUIET, "bootstrap.servers": bootstrap, "enable.idempotence": True})

    def run(self) -> None:
        for number in itertools.count():
            self._producer.produce(SOURCE, str(number), partition=number % PARTITIONS)
            self._producer.poll(0)
            if self._over.wait(PACE_SECONDS):
                return

    def finish(self) -> None:
        self._over.set()
        self.join()
        assert self._producer.flush(PATIENCE_SECONDS) == 0, "the source does not take its records"


def commands(names: Sequence[str], folder: Path) -> dict[str, list[str]]:
    """Fetch and compile what each client needs."""
    found = {}
    for name in names:
        if name == "franz-go":
            source = shutil.copytree(SOURCES, folder / "franz-go")
            program = folder / "workers"
            subprocess.run(["go", "build", "-mod=mod", "-o", str(program), "."], cwd=source, check=True)
            found[name] = [str(program)]
        else:
            jars = kafka_jars(CACHE / "kafka-3.9") if name == "java-3.9" else kraft_jars(CACHE / "kafka-4")
            found[name] = java(jars, folder / name)
    return found


def java(jars: KafkaJars, folder: Path) -> list[str]:
    folder.mkdir()
    (folder / "log4j.properties").write_text(
        "log4j.rootLogger=WARN, stderr\nlog4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.stderr.target=System.err\nlog4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.stderr.layout.ConversionPattern=%d %p %m%n\n"
    )
    path = f"{jars.directory}/jars/*"
    classes = compiled(SOURCES / "Workers.java", folder, path)
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{folder}:{classes}:{path}", "Workers"]


@contextmanager
def cluster(side: str, folder: Path) -> Iterator[dict[int, Stage]]:
    jars = kafka_jars(CACHE / "kafka-3.9")
    with asyncio.Runner() as runner:
        zookeeper = EmbeddedZooKeeper(folder / "zookeeper", free_ports(1)[0])
        runner.run(zookeeper.start())
        stages = {one: Stage(jars, zookeeper.connect, folder / f"broker-{one}", one, SETTINGS) for one in BROKERS}
        try:
            for one in BROKERS:
                start(stages[one], side)
            yield stages
        finally:
            for stage in stages.values():
                stage.close()
            runner.run(zookeeper.stop())


def start(stage: Stage, side: str) -> None:
    stage.kafka() if side == "kafka" else stage.odradek()


def kill_in_turn(stages: Mapping[int, Stage], side: str, seconds: float) -> list[float]:
    """Kill one broker after the other; return the times."""
    kills: list[float] = []
    began = time.time()
    for number in range(int(seconds / EVERY_SECONDS)):
        time.sleep(max(0.0, began + number * EVERY_SECONDS - time.time()))
        stage = stages[number % len(BROKERS)]
        kills.append(time.time())
        stage.lives[-1].kill()
        time.sleep(DOWN_SECONDS)
        start(stage, side)
    time.sleep(max(0.0, began + seconds - time.time()))
    return kills


def source_ends(bootstrap: str) -> dict[int, int]:
    asker = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": "none"})
    ends = {one: end_of(asker, TopicPartition(SOURCE, one)) for one in range(PARTITIONS)}
    asker.close()
    return ends


def catch_up(client: Client, bootstrap: str, ends: Mapping[int, int]) -> None:
    """Wait until its group has committed the whole source. Raises AssertionError when it stands still."""
    asker = Consumer({**QUIET, "bootstrap.servers": bootstrap, "group.id": client.name})
    places = [TopicPartition(SOURCE, one) for one in ends]

    def done() -> int:
        return sum(max(0, place.offset) for place in ask_again(lambda: asker.committed(places, timeout=30)))

    while (before := done()) < sum(ends.values()):
        wait_until(lambda before=before: done() > before, f"{client.name} goes on after {before} of {ends}")  # type: ignore[misc]
    asker.close()


def play(side: str, names: Sequence[str], seconds: float, folder: Path) -> bool:
    """Tell whether nothing was wrong on one side; prints its figures."""
    with ExitStack() as stack:
        programs = commands(names, folder)
        stages = stack.enter_context(cluster(side, folder))
        bootstrap = ",".join(stage.address for stage in stages.values())
        admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        topics = [SOURCE, *(f"bills-{name}" for name in names)]
        for made in admin.create_topics([NewTopic(one, PARTITIONS, len(BROKERS)) for one in topics]).values():
            made.result(PATIENCE_SECONDS)
        feeder = Feeder(bootstrap)
        clients = [Client(one, programs[one], bootstrap, folder / f"{one}.log") for one in names]
        for client in clients:
            stack.callback(client.close)
        feeder.start()
        wait_until(lambda: all(client.recovered_s(0.0) < time.time() for client in clients), "the first transactions")
        kills = kill_in_turn(stages, side, seconds)
        feeder.finish()
        ends = source_ends(bootstrap)
        stuck = []
        for client in clients:
            try:
                catch_up(client, bootstrap, ends)
            except AssertionError as error:
                stuck.append(str(error))
            client.finish()
        fine = not stuck
        apart_s = (kills[-1] - kills[0]) / max(1, len(kills) - 1)
        print(f"\n{side}: {len(kills)} kills, {apart_s:.0f} s apart, {sum(ends.values())} records", *stuck, sep="\n")
        for client in clients:
            wrong = client.wrong(bootstrap, ends)
            fine = fine and not wrong
            tell(client, kills, wrong)
        for line in trouble(stages) if side == "odradek" else []:
            print(f"  a broker has logged: {line}")
        return fine


def tell(client: Client, kills: Sequence[float], wrong: Sequence[str]) -> None:
    took = sorted(client.recovered_s(kill) for kill in kills)
    unknown = sum(one.outcome is Outcome.UNKNOWN for one in client.transactions)
    print(f"  {client.name}: {len(client.committed)} committed, {client.failed} failed, of which {unknown} without")
    middle, mean = statistics.median(took), statistics.fmean(took)
    print(f"    an answer; going on after a kill: median {middle:.1f} s, mean {mean:.1f} s,")
    print(f"    longest {took[-1]:.1f} s; {len(client.reads)} read along; {len(wrong)} anomalies")
    for text, times in client.trouble.most_common(8):
        print(f"    {times:5d}  {text}")
    for line in wrong[:20]:
        print(f"    WRONG: {line}")


def trouble(stages: Mapping[int, Stage]) -> list[str]:
    marks = ("Traceback", "AssertionError", "never retrieved", " ERROR ")
    return [
        f"{log.name}: {line:.200}"
        for one in stages.values()
        for log in sorted(one.logs.parent.glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if any(mark in line for mark in marks)
    ][:20]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes for each --side that is given")
    parser.add_argument("--side", choices=("odradek", "kafka"), action="append", help="default: both")
    parser.add_argument("--client", choices=CLIENTS, action="append", help="default: all")
    parser.add_argument("--directory", type=Path, help="folder for clusters and logs; must not exist yet, and is kept")
    given = parser.parse_args()
    fine = True
    with ExitStack() as stack:
        folder = given.directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-kills-")))
        for number, side in enumerate(given.side or ("odradek", "kafka")):
            place = folder / f"{number}-{side}"
            place.mkdir(parents=True)
            fine = play(side, given.client or CLIENTS, given.minutes * 60, place) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
