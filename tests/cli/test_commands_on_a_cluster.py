"""Commands on a cluster in memory."""

import json
from collections.abc import Iterator

import pytest

from odradek import KafkaAdminClient
from odradek.cli import main as command_line
from odradek.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as running:
        yield running


def test_a_topic_that_is_created_meanwhile_is_there_all_the_same(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two scripts that prepared one cluster one failed, though both had said --if-not-exists."""
    cluster.create_topic("there")
    monkeypatch.setattr(KafkaAdminClient, "list_topics", lambda self, **_: [])
    at = ["--bootstrap-server", cluster.bootstrap]
    assert command_line.run(["topics", "create", "there", "new", "--if-not-exists", "--json", *at]) == 0
    assert [one["topic"] for one in json.loads(capsys.readouterr().out)] == ["new"]
    assert command_line.run(["topics", "create", "there", *at]) == 1
    assert "TOPIC_ALREADY_EXISTS" in capsys.readouterr().err
    assert command_line.run(["topics", "create", "odd", "--if-not-exists", "--config", "retention.ms=x", *at]) == 1


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
