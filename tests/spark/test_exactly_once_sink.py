"""Every place where a task, the driver or a broker may die in an epoch: a reader of committed data sees each row once.

The places are those of the table in `client/spark/epochs.py`. A process that is killed closes nothing and says nothing:
`new_process` only breaks its connections.
"""

import asyncio
from typing import Any

import pyarrow
import pytest

from odradek.client.errors import ClientError
from odradek.client.records import TopicPartition
from odradek.client.spark import exactly_once
from odradek.client.spark.epochs import (
    METADATA_LIMIT_BYTES,
    Decision,
    Epoch,
    NotRepeatable,
    ProducerIdentity,
    Superseded,
    decision_of,
    decision_offset,
)
from odradek.client.spark.sink_options import parse_sink
from odradek.client.spark.writing import Place, write_task
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.spark_stage import QUERY, SERVERS, Stage, result, rows, stage

FIRST, SECOND = ["a", "b"], ["c", "d", "e"]
ALL = sorted(FIRST + SECOND)
TIMEOUT_SECONDS = 950


class Killed(BaseException):
    """The process ends here."""


def dies(*_: Any, **__: Any) -> Any:
    raise Killed


def test_nothing_is_seen_before_the_driver_commits() -> None:
    with stage() as one:
        one.create()
        messages = one.tasks(0, FIRST, SECOND)
        assert one.values() == [] and one.values(committed=False) == ALL
        one.new_process()
        one.commit(messages)
        assert one.values() == ALL
        messages = one.tasks(1, ["f"], [])
        one.commit(messages)
        assert one.values() == [*ALL, "f"]
        assert result(messages[1]).producer is None, "a task without rows opens no transaction"


def test_a_commit_returns_when_readers_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator answers before it has told the leaders, which here it cannot for three seconds."""
    with stage(brokers=2) as one:
        one.create()
        everywhere = pyarrow.array([0, 1, 2], pyarrow.int32())
        messages = [one.task(task, 0, rows("a", "b", "c", partition=everywhere)) for task in range(2)]
        end = exactly_once.end

        async def cut(*given: Any, **named: Any) -> bool:
            one.cluster.network.cut("broker-0", "broker-1")
            one.clock.call_later(3_000, one.cluster.network.heal)
            return await end(*given, **named)

        monkeypatch.setattr(exactly_once, "end", cut)
        one.commit(messages)
        assert one.values() == ["a", "a", "b", "b", "c", "c"]


def test_an_epoch_without_rows_leaves_nothing() -> None:
    with stage() as one:
        one.create()
        one.commit(one.tasks(0, [], []))
        assert one.run(_groups(one)) == []


async def _groups(one: Stage) -> list[str]:
    from odradek.aio import Admin

    async with Admin(bootstrap_servers="broker-0:9092", **one.world) as admin:
        return [group.group_id for group in await admin.list_groups()]


def test_a_task_dies_while_it_writes_or_after_it_has() -> None:
    with stage() as one:
        one.create()

        def half() -> Any:
            yield rows("c")
            raise Killed

        with pytest.raises(Killed):
            write_task(one.options, Place(1, QUERY, 0), half())
        one.new_process()
        one.task(1, 0, rows(*SECOND))  # its message never reaches the driver
        one.new_process()
        one.commit(one.tasks(0, FIRST, SECOND))
        assert one.values() == ALL


def test_a_slow_attempt_of_a_task_is_fenced() -> None:
    with stage() as one:
        one.create()
        good: list[Any] = []

        def slow() -> Any:
            yield rows("c")
            good.append(one.task(1, 0, rows(*SECOND)))
            yield rows("d", "e")

        with pytest.raises(KafkaError, match="PRODUCER"):
            write_task(one.options, Place(1, QUERY, 0), slow())
        one.commit([one.task(0, 0, rows(*FIRST)), *good])
        assert one.values() == ALL


def test_a_failed_epoch_is_aborted_and_written_again() -> None:
    with stage() as one:
        one.create()
        one.abort([one.task(0, 0, rows(*FIRST)), None])
        one.commit([one.task(2, 1, rows("z"))])
        assert one.values() == ["z"], "the abort leaves no transaction open that would hold readers back"
        one.commit(one.tasks(2, FIRST, SECOND))
        assert one.values() == [*ALL, "z"]


@pytest.mark.parametrize("decided", [False, True])
def test_a_transaction_that_cannot_be_ended_keeps_no_other_from_its_end(
    decided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stayed open, and held all readers of committed data back until transaction.timeout.ms: the process in which
    Spark calls the driver's part ends after it."""
    with stage() as one:
        one.create()
        messages = one.tasks(0, FIRST, SECOND)
        end = exactly_once.end
        ended: list[str] = []

        async def refused(session: Any, transactional_id: str, *given: Any, commit: bool) -> bool:
            if transactional_id.endswith("task-0"):
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id)
            known = await end(session, transactional_id, *given, commit=commit)
            ended.append(transactional_id)
            return known

        monkeypatch.setattr(exactly_once, "end", refused)
        with pytest.raises(KafkaError, match="AUTHORIZATION"):
            (one.commit if decided else one.abort)(messages)
        assert ended == [f"x-{QUERY}-task-1"]


def test_the_driver_dies_before_its_decision() -> None:
    with stage() as one:
        one.create()
        one.tasks(0, FIRST, SECOND)
        one.new_process()
        one.commit(one.tasks(0, FIRST, SECOND))
        assert one.values() == ALL


def test_the_driver_dies_in_the_midst_of_its_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage() as one:
        one.create()
        messages = one.tasks(0, FIRST, SECOND)
        with monkeypatch.context() as patch:
            patch.setattr("odradek.client.aio.producer.Producer.commit_transaction", dies)
            patch.setattr("odradek.client.aio.producer.Producer.abort_transaction", dies)
            with pytest.raises(Killed):
                one.commit(messages)
        one.new_process()
        one.commit(one.tasks(0, FIRST, SECOND))
        assert one.values() == ALL


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_the_driver_dies_after_its_decision(ended: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With none, one or both of the transactions committed; and the rows have changed when the epoch is repeated."""
    with stage() as one:
        one.create()
        one.commit(one.tasks(0, ["0"], ["1"]))
        _decided(one, monkeypatch, ended, one.tasks(1, FIRST, SECOND))
        one.new_process()
        repeated = one.tasks(1, ["x", "y", "z"], [])
        assert [(result(each).producer, result(each).same) for each in repeated] == [(None, False), (None, False)]
        one.commit(repeated)
        assert one.values() == ["0", "1", *ALL]
        one.commit(one.tasks(2, ["f"], ["g"]))
        assert one.values() == ["0", "1", *ALL, "f", "g"]


def _decided(one: Stage, monkeypatch: pytest.MonkeyPatch, ended: int, messages: list[Any]) -> None:
    """The driver dies when it has committed so many of the transactions."""
    end, begun, enough = exactly_once.end, 0, asyncio.Event()
    done = 0

    async def some(*given: Any, **named: Any) -> bool:
        nonlocal begun, done
        begun += 1
        if begun > ended:
            if ended:
                await enough.wait()
            raise Killed
        well = await end(*given, **named)
        done += 1
        if done == ended:
            enough.set()
        return well

    with monkeypatch.context() as patch:
        patch.setattr(exactly_once, "end", some)
        if ended < len(messages):
            with pytest.raises(Killed):
                one.commit(messages)
        else:
            one.commit(messages)


def test_fewer_tasks_repeat_a_decided_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage() as one:
        one.create()
        _decided(one, monkeypatch, 1, one.tasks(0, FIRST, SECOND))
        one.new_process()
        one.commit(one.tasks(0, ALL))
        assert one.values() == ALL


def test_what_a_timeout_has_aborted_after_the_decision_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage() as one:
        one.create()
        _decided(one, monkeypatch, 1, one.tasks(0, FIRST, SECOND))
        one.new_process()
        one.wait(TIMEOUT_SECONDS)
        assert len(one.values()) in (2, 3)
        repeated = one.tasks(0, FIRST, SECOND)
        assert sorted(result(each).producer is None for each in repeated) == [False, True]
        one.commit(repeated)
        assert one.values() == ALL


def test_and_the_driver_may_die_then_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage() as one:
        one.create()
        _decided(one, monkeypatch, 1, one.tasks(0, FIRST, SECOND))
        one.new_process()
        one.wait(TIMEOUT_SECONDS)
        _decided(one, monkeypatch, 0, one.tasks(0, FIRST, SECOND))
        one.new_process()
        one.commit(one.tasks(0, FIRST, SECOND))
        assert one.values() == ALL


@pytest.mark.parametrize("again", [(["x", "y"], ["z", "z", "z"]), (ALL,)], ids=["other rows", "other tasks"])
def test_what_cannot_be_repeated_is_said_and_not_written_twice(
    again: tuple[list[str], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stage() as one:
        one.create()
        _decided(one, monkeypatch, 1, one.tasks(0, FIRST, SECOND))
        one.new_process()
        one.wait(TIMEOUT_SECONDS)
        seen = one.values()
        for _ in range(2):
            repeated = one.tasks(0, *again)
            with pytest.raises(NotRepeatable, match="epoch 0 was committed in part") as failed:
                one.commit(repeated)
            assert "failOnDataLoss=false" in str(failed.value)
            one.abort(repeated)
            assert one.values() == seen
        one.options = parse_sink({**SERVERS, "topic": "t", "transactionalId": "x", "failOnDataLoss": "false"})
        one.commit(one.tasks(0, *again))
        one.commit(one.tasks(1, ["f"]))
        assert one.values() == [*seen, "f"]


def test_an_epoch_that_took_longer_than_its_transactions_is_not_decided() -> None:
    with stage() as one:
        one.create()
        messages = one.tasks(0, FIRST, SECOND)
        one.wait(TIMEOUT_SECONDS)
        with pytest.raises(ClientError, match=r"epoch 0 took longer than kafka\.transaction\.timeout\.ms=900000"):
            one.commit(messages)
        one.abort(messages)
        one.commit(one.tasks(0, FIRST, SECOND))
        assert one.values() == ALL


def test_a_driver_that_is_believed_dead_and_is_not() -> None:
    with stage() as one:
        one.create()
        old = one.tasks(0, FIRST, SECOND)
        new = one.tasks(0, FIRST, SECOND)
        one.commit(new)
        with pytest.raises(Superseded, match="another driver of this query has decided 0"):
            one.commit(old)
        one.abort(old)
        assert one.values() == ALL
        one.commit(one.tasks(1, ["f"], ["g"]))
        with pytest.raises(Superseded, match="has decided 1 meanwhile"):
            one.commit(old)
        assert one.values() == [*ALL, "f", "g"]


def test_its_decision_may_come_between_a_task_of_the_new_one_and_its_commit() -> None:
    """Task 0 of the new driver fenced that of the old one, which decided nevertheless; task 1 finds the decision."""
    with stage() as one:
        one.create()
        old = one.tasks(0, FIRST, SECOND)
        first = one.task(0, 0, rows(*FIRST))
        with pytest.raises(ClientError, match=r"the transactions of tasks \[0\] were aborted"):
            one.commit(old)
        messages = [first, one.task(1, 0, rows(*SECOND))]
        with pytest.raises(Superseded):
            one.commit(messages)
        one.abort(messages)
        one.commit(one.tasks(0, FIRST, SECOND))
        assert one.values() == ALL


def test_a_commit_that_is_repeated_does_no_harm() -> None:
    with stage() as one:
        one.create()
        messages = one.tasks(0, FIRST, SECOND)
        one.commit(messages)
        one.abort(messages)  # as Spark does when a commit has raised, though all was well
        assert one.values() == ALL
        one.commit(one.tasks(0, FIRST, SECOND))
        assert one.values() == ALL


async def _restarted(broker: EmbeddedBroker) -> None:
    broker.kill()
    await broker.start()


def test_a_broker_dies_between_everything() -> None:
    with stage() as one:
        one.create()
        broker = one.cluster.brokers[0]

        def restart() -> None:
            one.run(_restarted(broker))

        first = one.task(0, 0, rows(*FIRST))
        restart()
        second = one.task(1, 0, rows(*SECOND))
        restart()
        one.commit([first, second])
        restart()
        assert one.values() == ALL


def test_an_epoch_of_too_many_tasks_to_note_is_decided_without_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage() as one:
        one.create()
        monkeypatch.setattr("odradek.client.spark.epochs.METADATA_LIMIT_BYTES", 10)
        _decided(one, monkeypatch, 1, one.tasks(0, FIRST, SECOND))
        one.new_process()
        repeated = one.tasks(0, FIRST, SECOND)
        assert sorted(result(each).producer is None for each in repeated) == [False, True]
        one.commit(repeated)
        assert one.values() == ALL


def test_a_batch_job_is_recognised_by_its_epoch() -> None:
    with stage() as one:
        one.create()
        one.options = parse_sink({**SERVERS, "topic": "t", "transactionalId": "daily", "epoch": "20240101"})
        one.commit([one.task(0, None, rows(*FIRST))], strict=True)
        one.commit([one.task(0, None, rows(*FIRST))], strict=True)
        assert one.values() == FIRST
        with pytest.raises(NotRepeatable, match="was written before, with other rows"):
            one.commit([one.task(0, None, rows("other"))], strict=True)
        one.options = parse_sink({**SERVERS, "topic": "t", "transactionalId": "daily"})
        for _ in range(2):
            one.commit([one.task(0, None, rows("z"))], strict=True)
        assert one.values() == [*FIRST, "z", "z"], "without an epoch each write is a new one"


def test_a_thousand_tasks_fit_into_a_decision() -> None:
    producers = {task: ProducerIdentity(4_000 + task * 7 % 3_000, task % 3) for task in range(1_000)}
    decision = Decision(7, 1_200, producers)
    offset = decision_offset(decision)
    assert len(offset.metadata) <= METADATA_LIMIT_BYTES and offset.offset == 8
    assert decision_of({TopicPartition("t", 0): offset}) == decision
    assert decision_of({}) == Decision()
    many = decision_offset(Decision(7, 9_000, {task: ProducerIdentity(task**2, 0) for task in range(9_000)}))
    assert decision_of({TopicPartition("t", 0): many}) == Decision(7, 9_000, None)
    with pytest.raises(ClientError, match="does another program use the group"):
        decision_of({TopicPartition("t", 0): offset._replace(metadata="mine")})


def test_names_of_a_query() -> None:
    assert Epoch("x-5eed", 3).task_id(7) == "x-5eed-task-7"
