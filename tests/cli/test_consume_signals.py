"""`odradek consume` that is told to end: what it has printed is committed."""

import signal
import subprocess
import sys

from odradek import KafkaAdminClient, KafkaProducer, TopicPartition
from odradek.testing import Cluster
from odradek.testing.patience import PATIENCE_SECONDS


def test_a_signal_ends_it_with_the_offsets_committed() -> None:
    """It committed nothing, by Ctrl-C either, unless auto.commit.interval.ms had gone by."""
    with Cluster(brokers=1, topics={"t": 1}) as cluster:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            for value in (b"a", b"b", b"c"):
                producer.send("t", value)
        for number in (signal.SIGINT, signal.SIGTERM):
            group = number.name
            command = [sys.executable, "-m", "odradek", "consume", "t", "--group", group, "--from-beginning"]
            with subprocess.Popen(
                [*command, "--bootstrap-server", cluster.bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as consume:
                assert consume.stdout is not None
                assert [consume.stdout.readline() for _ in range(3)] == [b"a\n", b"b\n", b"c\n"]
                consume.send_signal(number)
                _, said = consume.communicate(timeout=PATIENCE_SECONDS)
            assert (consume.returncode, said) == (0, b"")
            with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as admin:
                committed = admin.list_group_offsets(group)
            assert committed[TopicPartition("t", 0)].offset == 3
