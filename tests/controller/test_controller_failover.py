"""Controller election, failover, brokers that die, come back, and shut down."""

from dataclasses import replace
from typing import Any

import pytest

from odradek.controller import partition_machine, replica_machine, request_batch
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.protocol.messages.update_metadata import TYPE_FULL, UpdateMetadataRequest
from odradek.protocol.topic_names import TopicPartition
from odradek.zk_schema.znodes.admin import delete_topic_path
from odradek.zk_schema.znodes.controller import CONTROLLER_EPOCH_PATH
from odradek.zk_schema.znodes.topics import PartitionReplicas, TopicAssignment, state_path, topic_path
from tests.controller.conftest import Play


def test_one_of_three_is_elected_and_all_know_it(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2)
        assert [c.is_active for c in cluster.controllers.values()].count(True) == 1
        assert {c.controller_id for c in cluster.controllers.values()} == {cluster.holder()}
        assert cluster.active.controller_epoch == 1
        assert cluster.zookeeper.data(CONTROLLER_EPOCH_PATH) == b"1"
        for broker in cluster.brokers.values():
            assert broker.live_brokers == {0, 1, 2}

    play(scenario)


def test_topic_gets_leaders_and_everybody_hears_of_them(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2)
        await cluster.create_topic("t", [0, 1, 2], [1, 2, 0], [2, 0])
        assert [cluster.state("t", p).leader for p in range(3)] == [0, 1, 2]
        assert cluster.state("t", 0).isr == (0, 1, 2)
        cluster.check_agreement()
        (request,) = cluster.brokers[0].of(LeaderAndIsrRequest)
        assert request.broker_epoch == cluster.brokers[0].epoch
        assert [len(topic.partition_states) for topic in request.topic_states] == [3]
        assert all(state.is_new for state in request.topic_states[0].partition_states)
        assert {leader.broker_id for leader in request.live_leaders} == {0, 1, 2}

    play(scenario)


def test_new_leader_when_a_broker_dies(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2)
        await cluster.create_topic("t", [2, 1, 0], [1, 2])
        cluster.kill(2)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").isr) == (1, (1, 0))
        assert cluster.state("t").leader_epoch == 1
        assert cluster.state("t", 1).isr == (1,)
        assert cluster.brokers[0].live_brokers == {0, 1}
        cluster.check_agreement()

    play(scenario)


def test_the_controller_dies_and_the_next_one_elects(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2)
        await cluster.create_topic("t", [0, 1, 2], [1, 0, 2])
        first = cluster.holder()
        cluster.kill(first)
        await cluster.settle()
        assert cluster.holder() not in (first, -1)
        assert cluster.active.controller_epoch == 2
        assert first not in (cluster.state("t").leader, *cluster.state("t").isr)
        cluster.check_agreement()
        survivor = cluster.brokers[cluster.holder()]
        assert isinstance(survivor.received[-1], UpdateMetadataRequest | LeaderAndIsrRequest)
        words = [message for message in survivor.received if message.controller_epoch == 2]
        assert isinstance(words[0], UpdateMetadataRequest) and words[0].type == TYPE_FULL, "before anybody leads"
        assert [len(topic.partition_states) for topic in words[0].topic_states] == [2]
        assert all(message.type != TYPE_FULL for message in words[1:] if isinstance(message, UpdateMetadataRequest))

    play(scenario)


def test_a_new_controller_elects_before_all_else_and_tells_each_replica_once(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the dead out of all ISRs first, wrote what it then elected for twice, and told brokers three times."""
    monkeypatch.setattr(replica_machine, "SLICE", 2)
    monkeypatch.setattr(partition_machine, "SLICE", 2)
    monkeypatch.setattr(request_batch, "PARTITIONS_PER_REQUEST", 2)

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3)
        dead = cluster.holder()
        first, second, third = sorted(set(range(4)) - {dead})
        led, followed, untouched = [[dead, first, second]] * 4, [[second, dead, third]] * 4, [[third, first]] * 2
        await cluster.create_topic("t", *led, *followed, *untouched)
        begun = len(cluster.commits)
        for broker in (first, second, third):
            cluster.brokers[broker].received.clear()
        cluster.kill(dead)
        await cluster.settle()
        states = [state_path("t", index) for index in range(10)]
        written = [one.path for _, operations in cluster.commits[begun:] for one in operations if one.path in states]
        assert written == states[:8], "those without a leader first, each once"
        told = [
            state.partition_index
            for message in cluster.brokers[first].of(LeaderAndIsrRequest)
            for topic in message.topic_states
            for state in topic.partition_states
        ]
        assert told == [0, 1, 2, 3, 8, 9]
        metadata = [
            [state.partition_index for topic in message.topic_states for state in topic.partition_states]
            for message in cluster.brokers[first].of(UpdateMetadataRequest)
        ]
        assert metadata == [list(range(10)), [0, 1], [2, 3], [4, 5], [6, 7]]
        kinds = [type(message) for message in cluster.brokers[first].received[:4]]
        assert kinds == [UpdateMetadataRequest, LeaderAndIsrRequest, UpdateMetadataRequest, LeaderAndIsrRequest]
        cluster.check_agreement()

    play(scenario)


def test_a_new_controller_tells_of_replicas_though_an_isr_cannot_shrink(play: Play) -> None:
    """Of a topic that is being deleted, say: its ISR stays, and a broker that comes back must know its replica."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2)
        first = cluster.holder()
        other = next(broker for broker in range(3) if broker != first)
        await cluster.create_topic("t", [other, first])
        cluster.brokers[other].received.clear()
        cluster.kill(first)
        await cluster.admin.create(delete_topic_path("t"))
        await cluster.settle()
        told = [one.topic_states[0].topic_name for one in cluster.brokers[other].of(LeaderAndIsrRequest)]
        assert told == ["t"]
        assert cluster.state("t").isr == (other, first)

    play(scenario)


def test_a_new_controller_tells_of_replicas_though_its_own_epoch_is_not_the_latest(play: Play) -> None:
    """Somebody has set `/controller_epoch` back: brokers that were started anew served no such partition."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2)
        dead = cluster.holder()
        first, second = sorted({0, 1, 2} - {dead})
        await cluster.create_topic("t", [first, second], [first, dead])
        for index in range(2):
            state = replace(cluster.state("t", index), controller_epoch=50)
            await cluster.admin.set(state_path("t", index), state.encode())
        cluster.brokers[first].received.clear()
        cluster.kill(dead)
        await cluster.settle()
        told = [one.topic_states[0].partition_states for one in cluster.brokers[first].of(LeaderAndIsrRequest)]
        assert [[state.partition_index for state in states] for states in told] == [[0], [1]]

    play(scenario)


def test_a_broker_that_comes_back_under_a_new_epoch_is_told_everything(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [2, 1], [1, 2])
        cluster.kill(2)
        back = await cluster.add_broker(2)  # before the controller has looked: a bounced broker
        await cluster.settle()
        assert back.received[0].broker_epoch == back.epoch
        assert back.received[0].type == TYPE_FULL
        assert cluster.state("t").leader == 1, "leadership left it: it may have lost what it had"
        assert 2 not in cluster.state("t").isr
        assert {p.partition for p in back.replicas} == {0, 1}
        cluster.check_agreement()

    play(scenario)


def test_all_replicas_gone_and_the_last_one_back(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        cluster.kill(2)
        await cluster.settle()
        cluster.kill(1)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").isr) == (-1, (1,))
        await cluster.add_broker(2)
        await cluster.settle()
        assert cluster.state("t").leader == -1, "not in the ISR, and unclean elections are not allowed"
        await cluster.add_broker(1)
        await cluster.settle()
        assert (cluster.state("t").leader, cluster.state("t").leader_recovery_state) == (1, 0)
        cluster.check_agreement()

    play(scenario)


def test_unclean_election_where_the_topic_allows_it(play: Play, caplog: Any) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2], unclean_leader_election_enable="true")
        await cluster.create_topic("safe", [1, 2])
        cluster.kill(2)
        await cluster.settle()
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(2)
        await cluster.settle()
        state = cluster.state("t")
        assert (state.leader, state.isr, state.leader_recovery_state) == (2, (2,), 1)
        assert cluster.state("safe").leader == -1
        assert cluster.active.counters.unclean_elections == 1
        assert any("t-0" in r.message and "UNCLEAN" in r.message for r in caplog.records if r.levelname == "WARNING")
        cluster.check_agreement()

    play(scenario)


def test_controlled_shutdown_moves_leaders_then_stops_followers(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [2, 1, 0], [1, 2, 0], [2])
        broker = cluster.brokers[2]
        began = len(cluster.commits)
        remaining = await cluster.active.controlled_shutdown(2, broker.epoch)
        assert remaining == []
        await cluster.settle()
        assert (cluster.state("t", 0).leader, cluster.state("t", 0).isr) == (1, (1, 0))
        assert (cluster.state("t", 1).leader, cluster.state("t", 1).isr) == (1, (1, 0))
        assert cluster.state("t", 2).leader == 2, "its only replica: it leads until it is gone"
        (told,) = broker.of(LeaderAndIsrRequest)[-1].topic_states
        assert [(p.partition_index, p.leader) for p in told.partition_states] == [(0, 1)], "it is to lead no more"
        (stop,) = broker.of(StopReplicaRequest)
        assert [(t.topic_name, [p.partition_index for p in t.partition_states]) for t in stop.topic_states] == [
            ("t", [1])
        ]
        assert not any(p.delete_partition for t in stop.topic_states for p in t.partition_states)
        writes = [o.path for _, ops in cluster.commits[began:] for o in ops if o.path.endswith("state")]
        assert writes[0] == "/brokers/topics/t/partitions/0/state"
        cluster.kill(2)
        await cluster.settle()
        assert cluster.state("t", 2).leader == -1
        cluster.check_agreement()

    play(scenario)


def test_a_broker_that_has_shut_down_counts_again_when_it_is_back(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [1, 2])
        await cluster.active.controlled_shutdown(1, cluster.brokers[1].epoch)
        cluster.kill(1)
        await cluster.settle()
        await cluster.add_broker(1)
        await cluster.settle()
        await cluster.put_in_isr([1, 2])
        assert set(cluster.state("t").isr) == {1, 2}
        cluster.kill(2)
        await cluster.settle()
        assert cluster.state("t").leader == 1

    play(scenario)


def test_all_hear_that_a_broker_without_replicas_has_died(play: Play) -> None:
    """No other request tells them, and clients would be sent to it."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, controllers=[0])
        await cluster.create_topic("t", [0, 1])
        cluster.kill(2)
        await cluster.settle()
        assert [cluster.brokers[broker].live_brokers for broker in (0, 1)] == [{0, 1}] * 2

    play(scenario)


def test_leaders_that_move_at_a_shutdown_are_written_together(play: Play) -> None:
    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, controllers=[0])
        await cluster.create_topic("t", *[[2, 1, 3]] * 60, *[[1, 2]] * 20)
        begun = len(cluster.commits)
        assert await cluster.active.controlled_shutdown(2, cluster.brokers[2].epoch) == []
        moves, shrinks = [operations for _, operations in cluster.commits[begun:]]
        assert (len(moves), len(shrinks)) == (61, 21), "each with its check: one transaction, then the next"
        await cluster.settle()
        assert len(cluster.brokers[1].led()) == 80
        told = cluster.brokers[1].of(LeaderAndIsrRequest)[1:]
        assert [len(request.topic_states[0].partition_states) for request in told] == [60, 20]
        cluster.check_agreement()

    play(scenario)


def test_what_an_earlier_move_has_added_leaves_the_isr_if_the_controller_dies_amid_the_next_move(play: Play) -> None:
    """It had written the next order, and had not yet stopped the replica that this one does not want."""

    async def scenario(cluster: Any) -> None:
        await cluster.begin(0, 1, 2, 3, 4, controllers=[0])
        await cluster.add_controller(2)
        await cluster.create_topic("t", [1, 2])
        await cluster.active.alter_reassignments({TopicPartition("t", 0): [3, 4]})
        await cluster.settle()
        await cluster.put_in_isr([1, 2, 3])
        cluster.kill(0)
        data, stat = await cluster.admin.get(topic_path("t"))
        topic_id = TopicAssignment.decode("t", data).topic_id
        ordered = TopicAssignment({0: PartitionReplicas((2, 4, 1), (4,), (1,))}, topic_id)
        await cluster.admin.set(topic_path("t"), ordered.encode(), stat.version)
        await cluster.settle()
        assert set(cluster.state("t").isr) == {1, 2}
        assert cluster.brokers[3].deleted == [TopicPartition("t", 0)]
        cluster.check_agreement()

    play(scenario)
