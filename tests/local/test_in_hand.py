"""Actions on brokers of `up --console` that two pages ask for at once, or that fail. Without ZooKeeper."""

import asyncio
import errno
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from odradek.console.actions import ActionRefusedError
from odradek.local import processes
from odradek.local.cluster import ClusterPlan, LocalCluster
from odradek.local.in_hand import BrokersInHand

SLEEPER = (sys.executable, "-c", "import signal; signal.pause()")


def play(directory: Path, scenario: Callable[[BrokersInHand], Awaitable[None]]) -> None:
    """Have a broker that was killed, and stop what then runs."""

    async def run() -> None:
        cluster = LocalCluster(ClusterPlan(directory, brokers=1, broker_command=SLEEPER))
        in_hand = BrokersInHand(cluster)
        await cluster.launch(0)
        await in_hand.act(0, "kill")
        before = psutil.Process().children()
        try:
            await scenario(in_hand)
        finally:
            await cluster.stop()
            for one in psutil.Process().children():
                if one not in before:
                    one.kill()

    asyncio.run(run())


def test_a_broker_is_started_once_though_two_pages_ask(tmp_path: Path) -> None:
    """The second process took the pid file, and the first one, which had the data, ran on when `up` had ended."""

    async def scenario(in_hand: BrokersInHand) -> None:
        asked = [in_hand.act(0, "start") for _ in range(3)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(one).partition(":")[0] for one in answers] == ["None", *["broker 0 was killed by SIGKILL"] * 2]
        assert in_hand.processes()[0].actions == ["kill", "stop", "suspend"]

    play(tmp_path, scenario)


def test_a_start_that_fails_is_refused_with_the_reason_and_can_be_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def scenario(in_hand: BrokersInHand) -> None:
        with monkeypatch.context() as disk:
            disk.setattr(processes, "locked", full)
            with pytest.raises(ActionRefusedError, match=r"broker 0 cannot be started: .*No space left"):
                await in_hand.act(0, "start")
        await in_hand.act(0, "start")

    play(tmp_path, scenario)
