"""Signals that end `odradek broker` and `odradek up`, here while they wait for ZooKeeper."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.local.ports import free_ports
from odradek.testing.patience import PATIENCE_SECONDS


def a_broker(directory: Path, zookeeper: str) -> list[str]:
    file = directory / "server.properties"
    file.write_text(
        f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={directory / 'data'}\n"
        f"zookeeper.connect={zookeeper}\nzookeeper.connection.timeout.ms=600000\n"
    )
    return ["odradek.broker", str(file)]


def a_cluster(directory: Path, zookeeper: str) -> list[str]:
    port = str(free_ports(1)[0])
    return ["odradek", "up", "--brokers", "1", "--port", port, "--zookeeper", zookeeper, "--data", str(directory)]


@pytest.mark.parametrize("program", [a_broker, a_cluster])
@pytest.mark.parametrize(
    ("started_with", "signals"),
    [
        ([], [signal.SIGHUP]),
        ([], [signal.SIGTERM]),
        ([], [signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT]),  # both come at once
        (["nohup"], [signal.SIGHUP, signal.SIGTERM]),
    ],
    ids=["closed terminal", "told to stop", "both", "closed terminal after nohup"],
)
def test_it_is_shut_down_in_a_controlled_way(
    started_with: list[str], signals: list[signal.Signals], program: Callable[[Path, str], list[str]], tmp_path: Path
) -> None:
    """A closed terminal killed it: a broker recovered all of its logs at the next start, a cluster's ran on alone."""
    code, said = end_of(program, tmp_path, started_with, signals)
    assert code == 0, said


def test_a_broker_that_is_told_twice_ends_at_once_and_says_so(tmp_path: Path) -> None:
    """Its log ended in the middle of its work, as after a kill -9."""
    code, said = end_of(a_broker, tmp_path, [], [signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT])
    assert code == 130
    assert "told to stop a second time" in said


def end_of(
    program: Callable[[Path, str], list[str]], tmp_path: Path, started_with: list[str], signals: list[signal.Signals]
) -> tuple[int, str]:
    """Send signals to a program that waits for ZooKeeper; its exit code and what it has said."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_SECONDS)
        command = program(tmp_path, f"127.0.0.1:{silent.getsockname()[1]}")
        running = subprocess.Popen(
            [*started_with, sys.executable, "-m", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            silent.accept()[0].close()
            for one in signals:
                os.kill(running.pid, one)
            _, said = running.communicate(timeout=PATIENCE_SECONDS)
        finally:
            running.kill()
            running.communicate()
    return running.returncode, said.decode()
