"""A follower that returns to a leader which is written to without a pause: how long until it is in sync again.

    python bench/rejoin_under_load.py [--rounds 10]

Two brokers, two replicas, min.insync.replicas=1: while the follower is dead the leader alone is in sync, its high
watermark is the end of its log, and a follower is always one round trip behind it. Exit code 1 when it took longer than
the goal in some round, from the start of its process on.
"""

import argparse
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import this_tree  # noqa: F401
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.connection import framed
from odradek.protocol.headers import RequestHeader, decode_response, encode_request
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.load import QUIET
from odradek.testing.log_environments import make_batch
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster

TOPIC = "rejoin"
GOAL_SECONDS, GIVE_UP_SECONDS = 10.0, 40.0
IN_FLIGHT = 200
PRODUCE_VERSION = 9


class Writer(threading.Thread):
    """Requests of one record each, so many in flight that the leader always has the next."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address, self.written, self.over = address, 0, threading.Event()

    def run(self) -> None:
        """All answers are of one size: most are counted, and one of each receive is looked into."""
        data = PartitionProduceData(index=0, records=bytes(make_batch([b"x" * 20])))
        topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
        request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics)
        frame = b"".join(framed(encode_request(RequestHeader(request.API_KEY, PRODUCE_VERSION, 1, "writer"), request)))
        host, _, port = self.address.rpartition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(frame)
            size = 4 + int.from_bytes(connection.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL), "big")
            connection.sendall(frame * IN_FLIGHT)
            unanswered, received = IN_FLIGHT + 1, b""
            while unanswered:
                received += connection.recv(1 << 16)
                answered = len(received) // size
                if not answered:
                    continue
                check(received[4:size])
                received = received[answered * size :]
                self.written += answered
                unanswered -= answered
                if not self.over.is_set():
                    connection.sendall(frame * answered)
                    unanswered += answered


def check(answer: bytes) -> None:
    _, response = decode_response(ProduceRequest.API_KEY, PRODUCE_VERSION, answer)
    (partition,) = response.responses[0].partition_responses
    assert partition.error_code == 0, partition


def in_sync(address: str) -> set[int]:
    with RawConnection(address) as connection:
        answer = connection.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 8)
    return set(answer.topics[0].partitions[0].isr_nodes) if answer.topics[0].partitions else set()


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def one_round(number: int, cluster: UpCluster, leader: int, follower: int) -> bool:
    address = f"127.0.0.1:{cluster.port + leader}"
    wait_until(lambda: in_sync(address) == {leader, follower}, "both in sync")
    writer = Writer(address)
    writer.start()
    try:
        wait_until(lambda: writer.written > 1000, "the first writes")
        cluster.kill(follower)
        wait_until(lambda: in_sync(address) == {leader}, "the leader alone in sync")
        written, started = writer.written, time.monotonic()
        cluster.start(follower)
        serves = started
        while in_sync(address) != {leader, follower} and time.monotonic() - started < GIVE_UP_SECONDS:
            if not answers(f"127.0.0.1:{cluster.port + follower}"):
                serves = time.monotonic()
            time.sleep(0.1)
        took = time.monotonic() - started
    finally:
        writer.over.set()
        writer.join()
    rate = (writer.written - written) / took
    said = f"in sync after {took:.1f} s" if took < GIVE_UP_SECONDS else f"NOT in sync after {took:.0f} s"
    goal = f"goal {GOAL_SECONDS:.0f} s, it served after {serves - started:.1f} s"
    print(f"round {number}: {said} ({goal}), {rate:,.0f} records/s meanwhile", flush=True)
    return took <= GOAL_SECONDS


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="number of rounds")
    rounds = parser.parse_args().rounds
    leader, follower = 0, 1
    overrides = ["auto.leader.rebalance.enable=false"]
    with (
        tempfile.TemporaryDirectory(prefix="odradek-rejoin-") as folder,
        UpCluster(Path(folder), brokers=2, overrides=overrides) as cluster,
    ):
        admin = AdminClient({**QUIET, "bootstrap.servers": cluster.bootstrap})
        topic = NewTopic(TOPIC, 1, replica_assignment=[[leader, follower]], config={"min.insync.replicas": "1"})
        admin.create_topics([topic])[TOPIC].result(30)
        good = sum(one_round(number, cluster, leader, follower) for number in range(1, rounds + 1))
    print(f"{good} of {rounds} rounds within the goal")
    return 0 if good == rounds else 1


if __name__ == "__main__":
    sys.exit(main())
