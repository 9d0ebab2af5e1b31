"""Chaos on networks that break, under transactions: brokers, ZooKeeper nodes and clients, each on a host of its own.

    python bench/chaos_network.py [--seconds 300] [--seed 7] [--kafka] [--only kill] [--every 20] [--pause 0.01]
        [--ours] [--directory DIR]

Hosts are network namespaces (bench/network_hosts.py), so that the network between any two can be cut both ways or one
way, made slow, or made to lose packets; and processes are suspended and killed. The faults are drawn from the seed, one
at a time: with the same seed Apache Kafka 3.9.1 (`--kafka`) goes through the same ones. Transactions write, read and
abort meanwhile, by librdkafka or by our own clients (`--ours`). In the end odradek.testing.transaction_history looks
for anomalies; everything must go on within a minute after the last fault. Exit code 1 for an anomaly. Needs root, Linux
and iptables.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import this_tree  # noqa: F401
from chaos import trouble_in
from chaos_load import PARTITIONS, TOPIC, Member, Transactor, Watcher, final_log, goes_on, longest_gap
from chaos_load_ours import OurMember, OurTransactor, OurWatcher
from confluent_kafka.admin import AdminClient, NewTopic
from network_hosts import Hosts

from odradek.local.java import find_jars, find_java
from odradek.local.zookeeper import JVM_FLAGS
from odradek.testing.foreign.kafka_jars import LOG4J, kafka_jars
from odradek.testing.load import QUIET, ask_again
from odradek.testing.patience import wait_until
from odradek.testing.transaction_history import anomalies

BROKERS, ZOOKEEPERS = ("b0", "b1", "b2"), ("z1", "z2", "z3")
CLIENTS = "clients"
PORT = 9092
GOES_ON_SECONDS = 60.0
JARS = Path(__file__).resolve().parent.parent / ".cache" / "kafka-3.9"
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "30000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "replica.lag.time.max.ms": "5000",
    "group.initial.rebalance.delay.ms": "0",
}
ENSEMBLE = """tickTime=500
initLimit=20
syncLimit=10
clientPort=2181
admin.enableServer=false
4lw.commands.whitelist=srvr
"""


class Site:
    """Processes on hosts, each of which can be killed and started again."""

    def __init__(self, hosts: Hosts, directory: Path, *, kafka: bool) -> None:
        self.hosts, self.directory = hosts, directory
        self._commands: dict[str, list[str]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        (directory / "logs").mkdir(parents=True)
        (directory / "log4j.properties").write_text(LOG4J)
        servers = "".join(f"server.{i}={hosts.address[name]}:2888:3888\n" for i, name in enumerate(ZOOKEEPERS, 1))
        for number, name in enumerate(ZOOKEEPERS, 1):
            data, file = directory / name, directory / f"{name}.properties"
            data.mkdir()
            (data / "myid").write_text(str(number))
            file.write_text(f"{ENSEMBLE}dataDir={data}\n{servers}")
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            self._commands[name] = [find_java(), *JVM_FLAGS, "-cp", ":".join(find_jars()), main, str(file)]
        jars = kafka_jars(JARS) if kafka else None
        for number, name in enumerate(BROKERS):
            file = directory / f"{name}.properties"
            own = {
                "broker.id": str(number),
                "listeners": f"PLAINTEXT://{hosts.address[name]}:{PORT}",
                "log.dirs": str(directory / name),
                "zookeeper.connect": ",".join(f"{hosts.address[one]}:2181" for one in ZOOKEEPERS),
            }
            file.write_text("".join(f"{key}={text}\n" for key, text in (own | SETTINGS).items()))
            ours = [sys.executable, "-m", "odradek.broker", str(file)]
            flags = ("-Xmx512m", f"-Dlog4j.configuration=file:{directory / 'log4j.properties'}")
            self._commands[name] = ours if jars is None else jars.java("kafka.Kafka", str(file), flags=flags)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.hosts.address[name]}:{PORT}" for name in BROKERS)

    def start(self, name: str) -> None:
        label = name.replace("b", "broker-")
        with (self.directory / "logs" / f"{label}.log").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                self.hosts.command(name, self._commands[name]), stdout=output, stderr=output, start_new_session=True
            )

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()

    def signal(self, name: str, number: int) -> None:
        os.kill(self._processes[name].pid, number)

    def ended(self) -> list[str]:
        """Processes that have ended without being asked to."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


class Faults:
    """Faults drawn from a seed, one at a time; `fault()` begins one, and returns how it ends."""

    def __init__(self, site: Site, seed: int, only: str) -> None:
        self.site, self.hosts = site, site.hosts
        self.random = random.Random(seed)
        kinds: list[Callable[[], str]] = [
            self.kill, self.kill_zookeeper, self.suspend, self.isolate, self.split, self.deaf, self.mute,
            self.away_from_zookeeper, self.away_from_clients, self.slow, self.lossy, self.unplug, self.zookeeper_apart,
        ]  # fmt: skip
        self.kinds = [kind for kind in kinds if only in ("", kind.__name__)]
        self._after: list[Callable[[], None]] = []

    def one(self, seconds: float) -> tuple[str, str]:
        """Let one be for so long, and end it; return its name and what it did."""
        kind = self.random.choice(self.kinds)
        what = kind()
        print(f"           {kind.__name__}: {what}, {seconds:.0f} s", flush=True)
        time.sleep(seconds)
        self.heal()
        return kind.__name__, what

    def heal(self) -> None:
        self.hosts.heal()
        while self._after:
            self._after.pop()()

    def _kill(self, name: str) -> str:
        self.site.kill(name)
        self._after.append(lambda: self.site.start(name))
        return name

    def kill(self) -> str:
        return self._kill(self.random.choice(BROKERS))

    def kill_zookeeper(self) -> str:
        return self._kill(self.random.choice(ZOOKEEPERS))

    def suspend(self) -> str:
        name = self.random.choice((*BROKERS, *ZOOKEEPERS))
        self.site.signal(name, signal.SIGSTOP)
        self._after.append(lambda: self.site.signal(name, signal.SIGCONT))
        return name

    def isolate(self) -> str:
        name = self.random.choice((*BROKERS, *ZOOKEEPERS))
        self.hosts.part([name], [other for other in self.hosts.names if other != name])
        return name

    def split(self) -> str:
        """Brokers and ZooKeeper in two halves, the clients in one of them."""
        names = [*BROKERS, *ZOOKEEPERS]
        self.random.shuffle(names)
        self.hosts.part(names[:3], [*names[3:], CLIENTS])
        return f"{sorted(names[:3])} from {sorted(names[3:])} and the clients"

    def deaf(self) -> str:
        """A broker hears nothing of the other brokers, and is heard."""
        name = self.random.choice(BROKERS)
        for other in BROKERS:
            if other != name:
                self.hosts.cut(name, other)
        return name

    def mute(self) -> str:
        """Let nobody hear a broker, which hears everybody."""
        name = self.random.choice(BROKERS)
        for other in self.hosts.names:
            if other != name:
                self.hosts.cut(other, name)
        return name

    def away_from_zookeeper(self) -> str:
        name = self.random.choice(BROKERS)
        self.hosts.part([name], ZOOKEEPERS)
        return name

    def away_from_clients(self) -> str:
        name = self.random.choice(BROKERS)
        self.hosts.part([name], [CLIENTS])
        return name

    def slow(self) -> str:
        name = self.random.choice((*BROKERS, *ZOOKEEPERS))
        self.hosts.slow(name)
        return name

    def lossy(self) -> str:
        name, share = self.random.choice((*BROKERS, *ZOOKEEPERS)), self.random.choice((0.05, 0.2, 0.5))
        self.hosts.lose(name, share)
        return f"{name} loses {share:.0%}"

    def unplug(self) -> str:
        name = self.random.choice((*BROKERS, *ZOOKEEPERS))
        self.hosts.unplug(name)
        return name

    def zookeeper_apart(self) -> str:
        """No two nodes of ZooKeeper hear each other: there is no quorum."""
        for one in ZOOKEEPERS:
            self.hosts.part([one], [other for other in ZOOKEEPERS if other > one])
        return "all"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="seconds to run")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1_000_000), help="seed of the random numbers"
    )
    parser.add_argument("--kafka", action="store_true", help="test Apache Kafka 3.9.1 instead of Odradek")
    parser.add_argument("--ours", action="store_true", help="put the load on by our own clients")
    parser.add_argument("--only", default="", help="play this kind of fault alone")
    parser.add_argument("--every", type=float, default=0.0, help="seconds between two faults; 0: drawn from the seed")
    parser.add_argument(
        "--pause", type=float, default=0.01, help="seconds that a producer waits after each transaction"
    )
    parser.add_argument("--directory", type=Path, help="folder for the cluster; must not exist yet, and is kept")
    given = parser.parse_args()
    print(f"seed {given.seed}, {'Apache Kafka 3.9.1' if given.kafka else 'Odradek'}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # hosts and processes must not stay
    with ExitStack() as stack:
        directory = given.directory or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "site"
        directory.mkdir()
        hosts = stack.enter_context(Hosts([*ZOOKEEPERS, *BROKERS, CLIENTS]))
        site = Site(hosts, directory.resolve(), kafka=given.kafka)
        stack.callback(site.close)
        hosts.enter(CLIENTS)
        for name in (*ZOOKEEPERS, *BROKERS):
            site.start(name)
        return play(site, Faults(site, given.seed, given.only), given)


def play(site: Site, faults: Faults, given: argparse.Namespace) -> int:
    admin = AdminClient({**QUIET, "bootstrap.servers": site.bootstrap})
    wait_until(lambda: len(ask_again(lambda: admin.list_topics(timeout=10)).brokers) == len(BROKERS), "three brokers")
    ask_again(lambda: admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(60))
    transacts, watches, commits_as = (
        (OurTransactor, OurWatcher, OurMember) if given.ours else (Transactor, Watcher, Member)
    )
    transactors = [transacts(site.bootstrap, number, given.seed, given.pause) for number in range(3)]
    watcher, member = watches(site.bootstrap), commits_as(site.bootstrap)
    for worker in (*transactors, watcher, member):
        worker.start()
    wait_until(goes_on(transactors), "the first transactions")
    began, count = time.monotonic(), Counter[str]()
    draw = faults.random.choice
    while time.monotonic() < began + given.seconds:
        count[faults.one(given.every / 2 or draw((3.0, 8.0, 15.0)))[0]] += 1
        for name in site.ended():
            print(f"           {name} has ended by itself", flush=True)
            count["ended by itself"] += 1
            site.start(name)
        time.sleep(given.every / 2 or draw((2.0, 8.0, 15.0)))
    ended, on = time.monotonic(), goes_on(transactors)
    while not on() and time.monotonic() < ended + GOES_ON_SECONDS:
        time.sleep(0.2)
    stuck = [] if on() else [f"stuck: not every transactional id goes on within {GOES_ON_SECONDS:.0f} s"]
    recovered = time.monotonic() - ended
    for worker in (*transactors, watcher, member):
        worker.finish()
    log = final_log(site.bootstrap)
    history = [one for transactor in transactors for one in transactor.history]
    found = stuck + [str(one) for one in anomalies(history, [watcher.reads], log, member.commits)]
    commits = [at for one in transactors for at in one.commits]
    outcomes = Counter(one.outcome.value for one in history)
    print(f"faults: {dict(count)}; transactions: {dict(outcomes)}, {sum(t.failures for t in transactors)} errors")
    print(f"{sum(map(len, log.values()))} records there, {len(watcher.reads)} read meanwhile; longest time without a")
    print(f"commit {longest_gap(commits, began, ended):.1f} s; all went on {recovered:.1f} s after the last fault")
    trouble = [] if "ended by itself" in count else trouble_in(site.directory)
    print("\n".join([*found[:40], *trouble[:20]]) or "no anomaly, nothing odd in the brokers' logs")
    return 1 if found or trouble else 0


if __name__ == "__main__":
    sys.exit(main())
