"""AlterPartition as a leader sends it: what is decided, what is asked again, and when."""

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import cast

import pytest

from odradek.broker.cluster.broker_client import BrokerClient
from odradek.broker.replication import alter_partition_manager
from odradek.broker.replication.alter_partition_manager import AlterPartitionManager
from odradek.broker.replication.isr import PartitionView
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.replica_manager import ReplicaManager
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from odradek.testing.log_environments import make_environment, manager_of, open_test_log
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.world.clock import sleep
from odradek.world.tasks import Tasks

TOPIC_ID = b"t" * 16
Decide = Callable[[AlterPartitionRequest], AlterPartitionResponse]


class Controller:
    """The client's other end: answers by `decide`, and keeps what it was asked and when."""

    def __init__(self, clock: VirtualClock, decide: Decide) -> None:
        self._clock, self._decide = clock, decide
        self.asked: list[tuple[float, AlterPartitionRequest, int]] = []

    async def to_controller(self, message: Message, version: int, timeout_ms: float) -> Message:
        assert isinstance(message, AlterPartitionRequest)
        self.asked.append((self._clock.monotonic_ms(), message, version))
        await sleep(self._clock, 1.0)
        return self._decide(message)


def leader_of(*topics: str, clock: VirtualClock, topic_id: bytes = TOPIC_ID) -> ReplicaManager:
    partitions = []
    for topic in topics:
        partition = Partition(topic, 0, 0, open_test_log(make_environment()))
        partition.topic_id = topic_id
        partition.lead(PartitionView(0, 0, (0, 1), 0, (0, 1)), 0.0)
        partitions.append(partition)
    return manager_of(*partitions, clock=clock)


def propose(
    clock: VirtualClock, replicas: ReplicaManager, decide: Decide, isr: Collection[int] = (0,)
) -> tuple[Controller, Tasks]:
    tasks = Tasks(clock, lambda line: None)
    controller = Controller(clock, decide)
    clients = cast(Callable[[str], BrokerClient], lambda name: controller)
    manager = AlterPartitionManager(replicas, clock, tasks, clients, lambda: 7, 30_000)
    replicas.alter_partition = manager
    for partition in replicas.partitions.values():
        manager.submit(partition._propose(set(isr)))
    return controller, tasks


def answers(request: AlterPartitionRequest, error: int) -> AlterPartitionResponse:
    topics = [
        ResponseTopicData(
            topic_name=topic.topic_name,
            topic_id=topic.topic_id,
            partitions=[
                ResponsePartitionData(partition_index=p.partition_index, error_code=error, isr=[0], partition_epoch=1)
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionResponse(topics=topics)


def test_what_is_not_decided_is_asked_again_after_a_pause_whatever_the_code() -> None:
    """A code that is not in our table ended the task, and one that we knew was asked again at once, in a circle."""

    async def main(clock: VirtualClock) -> None:
        errors = [ErrorCode.NOT_CONTROLLER, 9_999, 9_999, 0]
        replicas = leader_of("t", clock=clock)
        controller, tasks = propose(clock, replicas, lambda request: answers(request, errors.pop(0)))
        await sleep(clock, 1_000)
        times = [when for when, _, _ in controller.asked]
        assert len(times) == 4 and all(later - earlier >= 50 for earlier, later in pairwise(times))
        assert replicas.partitions["t", 0].committed_isr == {0} and not tasks.deaths
        tasks.close()

    run_virtual(main)


def test_topics_without_ids_are_named() -> None:
    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("a", "b", clock=clock, topic_id=bytes(16))
        controller, tasks = propose(clock, replicas, lambda request: answers(request, 0))
        await sleep(clock, 100)
        ((_, request, version),) = controller.asked
        assert version == 1 and [topic.topic_name for topic in request.topics] == ["a", "b"]
        assert [p.new_isr for topic in request.topics for p in topic.partitions] == [[0], [0]]
        assert all(partition.committed_isr == {0} for partition in replicas.partitions.values())
        tasks.close()

    run_virtual(main)


def test_thousands_of_changes_are_told_in_their_order_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alter_partition_manager, "CHANGES_PER_REQUEST", 2)

    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("a", "b", "c", "d", "e", clock=clock, topic_id=bytes(16))
        controller, tasks = propose(clock, replicas, lambda request: answers(request, 0))
        await sleep(clock, 100)
        asked = [[topic.topic_name for topic in request.topics] for _, request, _ in controller.asked]
        assert asked == [["a", "b"], ["c", "d"], ["e"]]
        assert all(partition.committed_isr == {0} for partition in replicas.partitions.values())
        tasks.close()

    run_virtual(main)


def test_changes_that_cannot_be_decided_on_do_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper refuses to write their states, say: the first thousand of them were sent again and again, and no other
    partition of the broker got another ISR."""
    monkeypatch.setattr(alter_partition_manager, "CHANGES_PER_REQUEST", 2)

    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("a", "b", "c", clock=clock, topic_id=bytes(16))

        def decide(request: AlterPartitionRequest) -> AlterPartitionResponse:
            answer = answers(request, ErrorCode.NONE)
            for topic in answer.topics:
                if topic.topic_name != "c":
                    topic.partitions[0].error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            return answer

        _, tasks = propose(clock, replicas, decide)
        await sleep(clock, 1_000)
        assert [replicas.partitions[name, 0].committed_isr for name in "abc"] == [{0, 1}, {0, 1}, {0}]
        tasks.close()

    run_virtual(main)


def test_a_refusal_lets_the_leader_propose_again() -> None:
    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("t", clock=clock)
        controller, tasks = propose(clock, replicas, lambda request: answers(request, ErrorCode.INELIGIBLE_REPLICA))
        await sleep(clock, 100)
        partition = replicas.partitions["t", 0]
        assert len(controller.asked) == 1 and partition.pending_isr is None and partition.committed_isr == {0, 1}
        tasks.close()

    run_virtual(main)


def test_an_answer_does_not_end_the_change_that_was_asked_for_meanwhile() -> None:
    """That one would stay open for good: the leader proposes nothing else."""

    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("t", clock=clock)
        partition = replicas.partitions["t", 0]

        def decide(request: AlterPartitionRequest) -> AlterPartitionResponse:
            if len(controller.asked) == 1:
                partition.lead(PartitionView(0, 1, (0, 1), 0, (0, 1)), 0.0)
                replicas.submit_isr(partition._propose({0}))
            return answers(request, 0)

        controller, tasks = propose(clock, replicas, decide)
        await sleep(clock, 100)
        asked = [request.topics[0].partitions[0].leader_epoch for _, request, _ in controller.asked]
        assert asked == [0, 1] and partition.pending_isr is None and partition.committed_isr == {0}
        tasks.close()

    run_virtual(main)


def test_topics_with_ids_are_told_by_them_with_the_epochs_of_the_brokers() -> None:
    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("t", clock=clock)
        second = replicas.partitions["t", 1] = Partition("t", 1, 0, open_test_log(make_environment()))
        second.topic_id = TOPIC_ID
        second.lead(PartitionView(0, 0, (0, 1), 0, (0, 1)), 0.0)
        second.follower_fetched(1, 0, 0, 9, 0.0)
        controller, tasks = propose(clock, replicas, lambda request: answers(request, 0), isr={0, 1})
        await sleep(clock, 100)
        ((_, request, version),) = controller.asked
        (topic,) = request.topics
        assert (version, request.broker_epoch, topic.topic_id, topic.topic_name) == (3, 7, TOPIC_ID, "")
        told = [[(member.broker_id, member.broker_epoch) for member in p.new_isr_with_epochs] for p in topic.partitions]
        assert [dict(members)[1] for members in told] == [-1, 9]
        assert [p.partition_index for p in topic.partitions] == [0, 1]
        tasks.close()

    run_virtual(main)


def test_all_are_named_where_one_topic_has_no_id() -> None:
    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("a", "b", clock=clock)
        replicas.partitions["b", 0].topic_id = bytes(16)
        controller, tasks = propose(clock, replicas, lambda request: answers(request, 0))
        await sleep(clock, 100)
        ((_, request, version),) = controller.asked
        assert version == 1 and [topic.topic_name for topic in request.topics] == ["a", "b"]
        tasks.close()

    run_virtual(main)


@pytest.mark.parametrize("error", alter_partition_manager.OVERTAKEN)
def test_a_change_that_was_overtaken_is_not_asked_for_again_and_stays_open(error: ErrorCode) -> None:
    """LeaderAndIsr, which is on its way, ends it: a leader that proposed again would be refused again."""

    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("t", clock=clock)
        controller, tasks = propose(clock, replicas, lambda request: answers(request, error))
        await sleep(clock, 1_000)
        assert len(controller.asked) == 1 and replicas.partitions["t", 0].pending_isr is not None
        tasks.close()

    run_virtual(main)


@pytest.mark.parametrize("how", ["gone", "led anew"])
def test_what_nobody_wants_any_more_is_not_asked_for_again(how: str) -> None:
    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("t", clock=clock)
        controller, tasks = propose(clock, replicas, lambda request: answers(request, ErrorCode.NOT_CONTROLLER))
        await sleep(clock, 10)
        if how == "gone":
            del replicas.partitions["t", 0]
        else:
            replicas.partitions["t", 0].lead(PartitionView(0, 1, (0, 1), 1, (0, 1)), 0.0)
        await sleep(clock, 1_000)
        assert len(controller.asked) == 1 and not tasks.deaths
        tasks.close()

    run_virtual(main)


def test_a_controller_that_is_away_is_asked_until_it_answers_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", alter_partition_manager.log.name)
    away = [True, True, False, True, True, False]

    def decide(request: AlterPartitionRequest) -> AlterPartitionResponse:
        if away.pop(0):
            raise ConnectionRefusedError("nobody there")
        return answers(request, 0)

    async def main(clock: VirtualClock) -> None:
        replicas = leader_of("t", clock=clock)
        controller, tasks = propose(clock, replicas, decide)
        await sleep(clock, 1_000)
        partition = replicas.partitions["t", 0]
        assert partition.committed_isr == {0} and len(caplog.records) == 1
        replicas.submit_isr(partition._propose({0, 1}))
        await sleep(clock, 1_000)
        assert partition.pending_isr is None and len(caplog.records) == 2
        times = [when for when, _, _ in controller.asked]
        assert len(times) == 6 and all(later - earlier >= 50 for earlier, later in pairwise(times))
        tasks.close()

    run_virtual(main)
