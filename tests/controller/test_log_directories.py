"""Log directories that fail and have room again while something else goes on."""

from typing import Any

from odradek.controller.events import LeaderAndIsrAnswered
from odradek.journal.sentences import tell
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.notifications import LOG_DIR_EVENT_PREFIX, encode_log_dir_event
from tests.controller.conftest import Play

T0 = TopicPartition("t", 0)


async def directory_changes(cluster: Any, broker_id: int, *broken: TopicPartition) -> None:
    """From now on these replicas of a broker are out of reach; it says so."""
    cluster.brokers[broker_id].storage_errors = set(broken)
    await cluster.admin.create(LOG_DIR_EVENT_PREFIX, encode_log_dir_event(broker_id), sequential=True)
    await cluster.settle()


def test_a_replica_that_is_back_hears_of_an_election_that_was_held_meanwhile(play: Play) -> None:
    """It was told the state of before, and counted as out of reach in the election: it followed nobody from then on."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await directory_changes(cluster, 2, T0)
        follower = cluster.brokers[2]
        follower.answers = False
        await directory_changes(cluster, 2)
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        follower.answers = True
        await cluster.settle()
        assert follower.replicas[T0].leader == cluster.state("t").leader == 1
        assert follower.replicas[T0].leader_epoch == cluster.state("t").leader_epoch
        assert not follower.metadata[T0].offline_replicas

    play(scenario)


def test_a_replica_on_a_failed_disk_is_not_said_to_be_on_a_broker_that_is_offline(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await directory_changes(cluster, 2, T0)
        assert cluster.state("t").isr == (1,)
        (*_, last) = (entry for entry in cluster.active.journal.entries() if entry["kind"] == "partition")
        told = tell(last)
        assert told is not None
        assert told.why == "its log directory on broker 2, which is up, has failed or is full (OfflineLogDirectory)"

    play(scenario)


def test_a_replica_that_a_move_has_added_where_it_could_not_be_made_is_made_when_there_is_room(play: Play) -> None:
    """The broker had it before, when it failed first: nothing seemed new, and the move waited for a restart."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await directory_changes(cluster, 2, T0)
        await cluster.active.alter_reassignments({T0: [1]})
        await cluster.settle()
        cluster.brokers[2].replicas.clear()
        await cluster.active.alter_reassignments({T0: [2]})
        await cluster.settle()
        assert T0 not in cluster.brokers[2].replicas
        await directory_changes(cluster, 2)
        assert cluster.brokers[2].replicas[T0].leader == 1
        await cluster.put_in_isr([1, 2])
        assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))
        cluster.check_agreement()

    play(scenario)


def test_a_refused_partition_does_not_hide_that_another_one_is_out_of_reach(play: Play) -> None:
    """Behind a refusal the answers of its topic counted for a topic of the refusal's name: the dead replica led on."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [2, 1], [2, 1])
        active = cluster.active._active
        errors = [
            LeaderAndIsrPartitionError(partition_index=0, error_code=ErrorCode.INCONSISTENT_TOPIC_ID),
            LeaderAndIsrPartitionError(partition_index=1, error_code=ErrorCode.KAFKA_STORAGE_ERROR),
        ]
        topic = LeaderAndIsrTopicError(topic_id=active.state.topic_ids["t"], partition_errors=errors)
        epoch = active.state.brokers[2].epoch
        active.soon(LeaderAndIsrAnswered(2, epoch, LeaderAndIsrResponse(topics=[topic])))
        await cluster.settle()
        assert active.state.offline_directories[2] == {TopicPartition("t", 1)}
        assert cluster.brokers[1].led() == {TopicPartition("t", 1)}

    play(scenario)
