"""What becomes of the containers of ComposeCluster when they do not start. Without an engine."""

import subprocess
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from odradek.testing.compose import ComposeCluster


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), subprocess.CalledProcessError(1, "up")], ids=repr)
def test_containers_are_removed_whatever_ends_their_start(failure: BaseException) -> None:
    stopped = []

    def start() -> NoReturn:
        raise failure

    def listed(**_: Any) -> NoReturn:
        raise OSError("the engine does not answer")

    cluster: Any = object.__new__(ComposeCluster)
    cluster.project = "p"
    cluster._compose = SimpleNamespace(start=start, stop=lambda: stopped.append(True))
    cluster._docker = SimpleNamespace(close=lambda: None, containers=SimpleNamespace(list=listed))
    cluster._settings = SimpleNamespace(close=lambda: None)
    with pytest.raises((type(failure), OSError)), cluster:
        pass
    assert stopped
