"""`odradek why` on brokers as processes: ZooKeeper is found by what the brokers say of themselves."""

import pytest

from odradek.cli import main as command_line
from odradek.testing.load import Observer
from odradek.testing.patience import wait_until
from odradek.testing.up import UpCluster

pytestmark = pytest.mark.cluster


def test_since_when_a_broker_is_gone_is_told_by_zookeeper(
    cluster: UpCluster, observer: Observer, capsys: pytest.CaptureFixture[str]
) -> None:
    def why(*arguments: str) -> list[str]:
        assert command_line.run(["why", *arguments, "--bootstrap-server", cluster.bootstrap]) == 0
        return capsys.readouterr().out.splitlines()

    well, unknown = why(f"{observer.topic}-1")
    assert well.startswith(f"{observer.topic}-1 is well: {observer.topic}-1 led by ")
    # of ZooKeeper it does not say that it did not answer
    assert unknown.endswith("what happened on broker 0, 1, 2: it serves no journal (metrics.port is not set)")
    victim = next(one for one in range(3) if one != observer.controller())
    cluster.kill(victim)
    wait_until(lambda: victim not in observer.leaders().values(), f"others to lead than {victim}")
    try:
        gone, behind = why(str(victim))[0], why(observer.topic)[0]
    finally:
        cluster.start(victim)
        wait_until(observer.in_sync, "all replicas in sync")
    assert gone.startswith(f"degraded: broker {victim} is gone: no registration of it is in ZooKeeper")
    assert " has had 2 of 3 replicas in sync since " in behind and f"start broker {victim} again" in behind
