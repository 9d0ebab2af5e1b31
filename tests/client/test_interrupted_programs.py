"""Programs that Ctrl-C ends while their clients are open."""

import signal
import subprocess
import sys

from odradek.testing import Cluster
from odradek.testing.patience import PATIENCE_SECONDS

READS_ON = """
import sys
from odradek import KafkaConsumer

consumer = KafkaConsumer("t", bootstrap_servers=sys.argv[1], group_id="g")
while not consumer.assignment():
    consumer.poll(timeout_ms=100)
print("assigned", flush=True)
while True:
    consumer.poll(timeout_ms=60_000)
"""


def test_a_program_in_a_group_dies_of_the_signal_that_interrupts_it() -> None:
    """A shell stops its loop only then. It ended with 1: leaving the group executed a text, which clears what Python
    has noted of the interrupt."""
    with (
        Cluster(brokers=1, topics={"t": 1}) as cluster,
        subprocess.Popen(
            [sys.executable, "-c", READS_ON, cluster.bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as program,
    ):
        assert program.stdout is not None
        assert program.stdout.readline() == b"assigned\n"
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=PATIENCE_SECONDS)
        assert program.returncode == -signal.SIGINT, said.decode()
        _, interrupt, behind = said.rpartition(b"KeyboardInterrupt\n")
        # Python itself warns behind it of a coroutine that the interrupt has kept from its start.
        assert interrupt and all(line.endswith(b"was never awaited") for line in behind.splitlines()), said.decode()
