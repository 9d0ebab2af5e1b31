"""The whole cluster with clients under faults, from fixed seeds. `make night` runs others."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult, CreateTopicsRequest
from odradek.testing.seeds import corpus
from odradek.testing.simulation.administration import Administrator
from odradek.testing.simulation.plans import EXPIRES, FAULT_KINDS, ROLLING, Plan, Report, varied_plan
from odradek.testing.simulation.run import simulate
from odradek.testing.simulation.transactional_positions import TOPIC

SEEDS = range(2)
VARIED = [1, *(int(seed) for (seed,) in corpus("simulation"))]
"""One, and those that have failed once."""
SHORT_S = 4.0
WITHOUT = (frozenset({"old", "connectors"}), frozenset({"loose", "connectors"}))
"""Each run has one of these clients: both cost more than they show."""
DIGEST = "from odradek.testing.simulation.run import *; print(simulate(Plan(3, (), 3.0, without={'old'})).digest)"


def check(report: Report) -> None:
    assert report.violation is None, report.text()
    assert report.acknowledged > 0, "nothing was written: the run shows nothing"


@pytest.mark.parametrize("seed", SEEDS)
def test_all_faults_together(seed: int) -> None:
    check(simulate(Plan(seed, faults_s=SHORT_S, without=WITHOUT[seed % 2])))


def test_a_topic_whose_creation_was_refused_is_created_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict ended with a KeyError, in place of a story."""
    ask = Administrator.ask_controller
    refused: list[CreatableTopic] = []

    async def refuse_once(self: Administrator, request: Any, version: int) -> Any:
        if isinstance(request, CreateTopicsRequest) and not refused:
            refused[:] = [one for one in request.topics if one.name == TOPIC]
            request.topics = [one for one in request.topics if one.name != TOPIC]
            answer = await ask(self, request, version)
            answer.topics.append(CreatableTopicResult(name=TOPIC, error_code=ErrorCode.INVALID_REPLICATION_FACTOR))
            return answer
        return await ask(self, request, version)

    monkeypatch.setattr(Administrator, "ask_controller", refuse_once)
    check(simulate(Plan(3, (), 3.0, without=frozenset({"old", "loose", "group", "connectors"}))))
    assert refused


@pytest.mark.parametrize("seed", VARIED)
def test_a_varied_plan(seed: int) -> None:
    check(simulate(varied_plan(seed)))


@pytest.mark.parametrize(
    ("seed", "kinds"),
    [
        (1, ["kill", "kill_controller"]),
        (2, ["power_failure"]),
        (3, ["isolate", "isolate_from_brokers", "one_way"]),
        (4, ["away_from_zookeeper", "session_expiry", "zookeeper_restart", "lost_answers"]),
        (5, ["shutdown", "topics", "slow_network"]),
        (6, ["suspend", "slow_zookeeper"]),
        (7, ["reassign", "elect_leaders", "move_directories"]),
        (8, ["zookeeper_stands", "wall_clock"]),
        (9, ["repeat_requests", "kill_controller", "elect_leaders"]),
        (10, ["zookeeper_lags", "zookeeper_leads_anew", "other_zookeeper"]),
        (11, ["rolling_restart", "live_settings", "death_within"]),
        (12, ["bit_rot"]),
        (13, ["lost_tail", "two_histories"]),
        (14, ["unheard_election", "producer_ids"]),
    ],
)
def test_one_kind_of_fault(seed: int, kinds: list[str]) -> None:
    check(simulate(Plan(seed, kinds, faults_s=SHORT_S, without=WITHOUT[seed % 2])))


@pytest.mark.parametrize(("seed", "kind"), [(16, "death_in_a_change"), (17, "power_failure_in_a_change")])
def test_a_broker_is_struck_within_a_change_of_its_disk(seed: int, kind: str) -> None:
    report = simulate(Plan(seed, [kind], SHORT_S, settings=ROLLING, without=WITHOUT[seed % 2]))
    check(report)
    assert any("is struck within change" in line for line in report.lines)


def test_a_broker_is_struck_when_it_asks_another_or_is_asked() -> None:
    report = simulate(Plan(18, ["death_at_a_request", "topics"], SHORT_S, settings=ROLLING, without=WITHOUT[0]))
    check(report)
    assert any(" at a request " in line for line in report.lines)


def test_what_the_controller_has_given_up_arrives_at_last() -> None:
    report = simulate(Plan(20, ["given_up_requests"], SHORT_S, without=WITHOUT[0]))
    check(report)
    assert any("when it has been told again" in line for line in report.lines)


@pytest.mark.parametrize("kinds", [["connector_session", "kill_client"], ["freeze_client", "zookeeper_leads_anew"]])
def test_a_group_that_is_balanced_in_zookeeper(kinds: list[str]) -> None:
    report = simulate(Plan(19, kinds, SHORT_S, without=frozenset({"old", "loose", "transactions"})))
    check(report)
    assert any("client.zookeeper.member" in line for line in report.lines)


def test_the_tail_of_a_topic_that_expires() -> None:
    check(simulate(Plan(15, ["early_expiry"], SHORT_S, settings=ROLLING, retention_bytes=EXPIRES)))


@pytest.mark.parametrize(
    ("brokers", "kinds"),
    [
        (1, ["kill", "shutdown", "full_disk", "failed_directory", "no_descriptors", "session_expiry", "live_settings"]),
        (3, FAULT_KINDS),
        (5, ["reassign", "kill", "isolate", "lost_disk", "parting_histories", "kill_controller", "rolling_restart"]),
    ],
)
def test_varied_plans_are_of_every_size(brokers: int, kinds: Sequence[str]) -> None:
    """One in six has one broker, one in six has five; there, too, each of these faults comes."""
    plans = [plan for plan in map(varied_plan, range(3000)) if plan.brokers == brokers]
    assert len(plans) >= {1: 400, 3: 1900, 5: 400}[brokers]
    assert any(not plan.kinds for plan in plans)
    assert set(kinds) <= {kind for plan in plans if plan.kinds for kind in plan.possible_kinds}
    assert {bool(plan.settings) for plan in plans} == {True, False}
    assert any("transactions" not in plan.without for plan in plans)


def test_varied_plans_choose_from_what_can_happen() -> None:
    """Where no record expires, runs with little else than expiry were runs without faults."""
    plans = [varied_plan(seed) for seed in range(3000)]
    assert all(list(plan.kinds) == plan.possible_kinds and len(plan.kinds) > 1 for plan in plans if plan.kinds)
    for plan in plans:
        assert ({"delete_records", "early_expiry"} & set(plan.possible_kinds) == set()) or plan.retention_bytes
    assert "delete_records" in Plan(1, retention_bytes=EXPIRES).possible_kinds


def test_a_broker_alone_with_an_offline_directory_is_started_before_its_clients_are_waited_for() -> None:
    """The disk was full while a broker was started. Its transactors waited for the coordinators in that directory, and
    the run for the transactors, before it would have started the broker again."""
    report = simulate(Plan(1, ["full_disk", "rolling_restart"], 12.0, settings=ROLLING, without=WITHOUT[1], brokers=1))
    check(report)
    assert any("has offline directories" in line for line in report.lines)


@pytest.mark.parametrize("brokers", [1, 5])
def test_clusters_of_other_sizes(brokers: int) -> None:
    check(simulate(Plan(11, faults_s=SHORT_S, without=WITHOUT[1] | {"producer-1"}, brokers=brokers)))


def test_a_run_is_the_same_in_another_process() -> None:
    """With other addresses of objects and other hashes of strings."""

    def digest(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", DIGEST]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert digest("1") == digest("2") != ""
