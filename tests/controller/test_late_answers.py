"""Answers of a broker's former life, which come when the controller has told its present one the same again."""

from collections.abc import Callable
from typing import Any

from odradek.controller.channel_manager import OnResponse
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.topics import topic_path
from tests.controller.conftest import Play

T0 = TopicPartition("t", 0)


def answer_when_cut_off(
    cluster: Any, broker: int, meant: Callable[[Any], bool], answer: Callable[[Any], Message]
) -> None:
    """Have the broker answer the first request that is `meant` in the last moment before its channel is closed."""
    channels = cluster.channels[0]
    send, remove = channels.send, channels.remove_broker
    held: list[Callable[[], object]] = []

    def holding(broker_id: int, message: Message, on_response: OnResponse) -> None:
        if broker_id == broker and not held and meant(message):
            held.append(lambda: on_response(answer(message)))
        else:
            send(broker_id, message, on_response)

    def removing(broker_id: int) -> None:
        assert broker_id == broker and len(held) == 1
        channels.send, channels.remove_broker = send, remove
        held[0]()
        remove(broker_id)

    channels.send, channels.remove_broker = holding, removing


async def bounce(cluster: Any, broker: int) -> None:
    """It comes back before the controller has looked."""
    cluster.kill(broker)
    await cluster.add_broker(broker)
    await cluster.settle()


def test_a_deletion_that_a_former_life_of_a_broker_refused_goes_on(play: Play) -> None:
    """The controller had told the present one, and took the late refusal for its answer: the right one then counted no
    more, and the topic waited until a broker was started again."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])

        def deletes(message: Message) -> bool:
            return (
                isinstance(message, StopReplicaRequest) and message.topic_states[0].partition_states[0].delete_partition
            )

        refusal = StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        answer_when_cut_off(cluster, 2, deletes, lambda request: refusal)
        await cluster.delete_topic("t")
        assert cluster.exists(topic_path("t"))
        await bounce(cluster, 2)
        assert T0 in cluster.brokers[2].deleted
        assert not cluster.exists(topic_path("t"))

    play(scenario)


def test_a_disk_that_a_former_life_of_a_broker_had_lost_is_not_lost_to_the_present_one(play: Play) -> None:
    """The late answer had the replica stopped, which nobody told to go on when the present life had it."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])

        def broken(request: LeaderAndIsrRequest) -> Message:
            error = LeaderAndIsrPartitionError(partition_index=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
            topic = LeaderAndIsrTopicError(topic_id=request.topic_states[0].topic_id, partition_errors=[error])
            return LeaderAndIsrResponse(topics=[topic])

        answer_when_cut_off(cluster, 2, lambda message: isinstance(message, LeaderAndIsrRequest), broken)
        await cluster.create_topic("t", [1, 2])
        await bounce(cluster, 2)
        assert not cluster.brokers[2].of(StopReplicaRequest)
        cluster.check_agreement()

    play(scenario)
