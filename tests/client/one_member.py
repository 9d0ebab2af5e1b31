"""One member of a group, and the answers of a coordinator with no other members."""

from typing import Any

from odradek.client.consumer.assignors.by_name import ASSIGNORS
from odradek.client.consumer.group_protocol import (
    encode_assignment,
)
from odradek.client.consumer.member_states import (
    Adopt,
    FindCoordinator,
    Heartbeat,
    Join,
    MemberSettings,
    Prepare,
    State,
    Sync,
)
from odradek.client.consumer.membership import Membership
from odradek.client.errors import GroupError
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.join_group import JoinGroupResponse

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Bench:
    """One member of a group, and answers as a coordinator gives them to the group's only member."""

    def __init__(self, *, cooperative: bool = False, instance: str | None = None) -> None:
        name = "cooperative-sticky" if cooperative else "range"
        settings = MemberSettings("g", instance, 10_000, 60_000, 3_000, 100, [ASSIGNORS[name]], cooperative)
        self.name = name
        self.now_ms = 1_000.0
        self.member = Membership(settings)

    def start(self) -> None:
        self.member.subscribe(["t"])
        self.member.polled(self.now_ms)

    def step(self) -> Any:
        return self.member.next_step(self.now_ms)

    def find_coordinator(self) -> None:
        assert isinstance(self.step(), FindCoordinator)
        self.member.coordinator_found()

    def prepare(self) -> Prepare:
        """The turn before joining; the coordinator is looked for meanwhile."""
        if isinstance(self.step(), FindCoordinator):
            self.member.coordinator_found()
        turn = self.member.turn
        assert isinstance(turn, Prepare)
        self.member.turn_done(turn)
        return turn

    def join(self, generation: int, error: ErrorCode = ErrorCode.NONE, leader: str = "other") -> Join:
        step = self.step()
        assert isinstance(step, Join), step
        self.member.joined(self.joined(generation, error, leader), self.now_ms)
        return step

    def joined(self, generation: int, error: ErrorCode, leader: str) -> JoinGroupResponse:
        return JoinGroupResponse(
            error_code=error, generation_id=generation, member_id="me", leader=leader, protocol_name=self.name
        )

    def sync(self, *partitions: TopicPartition) -> None:
        assert isinstance(self.step(), Sync)
        self.member.synced(ErrorCode.NONE, encode_assignment(partitions), self.now_ms)

    def adopt(self) -> Adopt:
        turn = self.member.turn
        assert isinstance(turn, Adopt)
        self.member.turn_done(turn)
        return turn

    def stable(self, *partitions: TopicPartition) -> "Bench":
        self.start()
        self.prepare()
        self.join(1)
        self.sync(*partitions)
        self.adopt()
        assert self.member.state == State.STABLE
        return self

    def beat(self, error: ErrorCode) -> None:
        self.now_ms += 3_000
        step = self.step()
        assert isinstance(step, Heartbeat), step
        self.member.beaten(error, self.now_ms)

    def come_back_after(self, failure: GroupError) -> None:
        """A poll that raises the failure, and the next one."""
        self.member.broke(failure)
        assert self.member.take_failure(self.now_ms) is failure
        assert self.member.take_failure(self.now_ms) is None
        self.now_ms += 100
        self.prepare()
