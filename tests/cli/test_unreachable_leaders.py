"""Commands whose partition has a leader that cannot be reached: they wait, for it may be back, and say for whom."""

import subprocess
import sys

import pytest

from odradek.testing import Cluster
from odradek.testing.patience import PATIENCE_SECONDS

SOON_GIVEN_UP = ("delivery.timeout.ms=1000", "request.timeout.ms=1000", "linger.ms=0")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["consume", "t", "--from-beginning", "--timeout-ms", "1000"], 0),
        (["produce", "t", *(word for one in SOON_GIVEN_UP for word in ("--property", one))], 1),
    ],
)
def test_a_command_says_which_leader_it_cannot_reach(command: list[str], code: int) -> None:
    """Both looked at an empty terminal: consume ended as if there were no records, produce after two minutes."""
    settings = {"zookeeper.session.timeout.ms": 60_000, "default.replication.factor": 1}  # it stays the leader
    with Cluster(brokers=2, topics={"t": 2}, settings=settings) as cluster:
        led = next(partition for partition in range(2) if cluster.leader("t", partition) == 1)
        address = cluster.bootstrap.split(",")[1]
        cluster.kill(1, unnoticed=True)
        where = ["--bootstrap-server", cluster.bootstrap.split(",")[0], "--partition", str(led)]
        done = subprocess.run(
            [sys.executable, "-m", "odradek", *command, *where],
            input=b"value\n", capture_output=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
    said = done.stderr.decode()
    assert f"broker 1, {address}, cannot be reached: cannot connect: Connection refused" in said
    assert said.count("cannot be reached") == 1, "each attempt is told"
    assert done.returncode == code
