"""Commands on a cluster in memory."""

import json
from collections.abc import Iterator

import pytest

from odradek.cli import main as command_line
from odradek.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as running:
        yield running


def test_what_is_appended_to_a_list_by_several_options_is_all_in_it(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last alone was, and the command said that it was done."""
    name = "leader.replication.throttled.replicas"
    cluster.create_topic("moved")
    resource = ["--topic", "moved", "--bootstrap-server", cluster.bootstrap]

    def alter(option: str, *values: str) -> str:
        given = [text for value in values for text in (option, f"{name}={value}")]
        assert command_line.run(["configs", "alter", *given, *resource]) == 0
        capsys.readouterr()
        assert command_line.run(["configs", "describe", "--json", *resource]) == 0
        (found,) = [one["value"] for one in json.loads(capsys.readouterr().out) if one["name"] == name]
        return str(found)

    assert alter("--append", "0:1", "1:2", "2:0") == "0:1,1:2,2:0"
    assert alter("--subtract", "0:1", "2:0") == "1:2"
