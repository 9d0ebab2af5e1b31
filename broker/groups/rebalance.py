"""Rebalance of a group, from one generation to the next: gather the members, choose leader and protocol, store the
leader's assignment.

Stable/Empty --prepare--> PreparingRebalance --everyone joined, or the timeout--> CompletingRebalance --stored--> Stable
"""

from dataclasses import dataclass
from typing import Final

from odradek.broker.groups.group_effects import (
    UNKNOWN_MEMBER,
    AssignmentWrite,
    EmptyWrite,
    JoinResult,
    StartTimer,
    StopTimer,
    StoreGroup,
    SyncResult,
    TimerKind,
)
from odradek.broker.groups.group_metadata import VALID_PREVIOUS, GroupMetadata, GroupState, Member
from odradek.broker.groups.outbox import Outbox
from odradek.broker.settings.coordinator_settings import GroupSettings
from odradek.protocol.errors import ErrorCode

ABSENT_MEMBERS_WAIT_MS: Final = 1000
"""Shortest time for which static members that are all absent are waited for again. Their own timeouts may be 0, and
their sessions half an hour long: a coordinator that had no pause would do nothing else until those are over."""


@dataclass(slots=True)
class _InitialDelay:
    """The first rebalance of an empty group waits for company (KIP-134)."""

    delay_ms: int
    remaining_ms: int
    newcomer: bool = False
    """True when a member has joined since the delay began, so it is worth waiting once more."""


class Rebalance:
    """The rules between two generations of one group."""

    def __init__(self, group: GroupMetadata, outbox: Outbox, config: GroupSettings) -> None:
        self._group = group
        self._outbox = outbox
        self._config = config
        self._initial: _InitialDelay | None = None

    def prepare_if_possible(self, now_ms: int, reason: str) -> None:
        """Begin a rebalance unless one is already gathering members."""
        if self._group.state in VALID_PREVIOUS[GroupState.PREPARING_REBALANCE]:
            self.prepare(now_ms, reason)

    def prepare(self, now_ms: int, reason: str) -> None:
        """Begin to gather members. An empty group waits for company first, any other only for its members."""
        group = self._group
        self._outbox.note("rebalancing", reason=reason, generation=group.generation, members=len(group.members))
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._fail_assignment(ErrorCode.REBALANCE_IN_PROGRESS)
        group.awaiting_sync.clear()
        self._outbox.add(StopTimer(TimerKind.SYNC, ""))
        delay_ms = group.rebalance_timeout_ms()
        if group.state is GroupState.EMPTY:
            initial_ms = self._config.group_initial_rebalance_delay_ms
            self._initial = _InitialDelay(initial_ms, max(delay_ms - initial_ms, 0))
            delay_ms = initial_ms
        group.enter(GroupState.PREPARING_REBALANCE, now_ms)
        self._outbox.add(StartTimer(TimerKind.JOIN, "", delay_ms))
        self.complete_if_all_joined(now_ms)

    def expect_newcomer(self) -> None:
        """Expect a member to be added; only a group that never had a generation waits longer for it, as in Kafka."""
        if self._initial is not None and self._group.generation == 0:
            self._initial.newcomer = True

    def complete_if_all_joined(self, now_ms: int) -> None:
        """End the gathering when nobody is missing; the delay of a first rebalance is always waited out."""
        group = self._group
        if group.state is GroupState.PREPARING_REBALANCE and self._initial is None and group.all_joined():
            self._complete(now_ms)

    def join_timer_fired(self, now_ms: int) -> None:
        """Complete the rebalance, which has gathered members for long enough, or wait for more newcomers."""
        if self._group.state is GroupState.PREPARING_REBALANCE and not self._wait_for_more_newcomers():
            self._initial = None
            self._complete(now_ms)

    def sync_timer_fired(self, now_ms: int) -> None:
        """Drop members that joined this generation but never came for their assignment (Kafka's DelayedSync)."""
        group = self._group
        if not group.awaiting_sync or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        for member_id in sorted(group.awaiting_sync):
            self.remove(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self.prepare(now_ms, "members did not come for their assignment")

    def synced(self, member: Member) -> None:
        """Note that the member has come for its assignment."""
        self._group.awaiting_sync.discard(member.member_id)
        if not self._group.awaiting_sync:
            self._outbox.add(StopTimer(TimerKind.SYNC, ""))

    def store_assignment(self, assignments: dict[str, bytes]) -> None:
        """Store the leader's assignment: members that it left out get empty bytes, strangers in it are dropped."""
        assignment = {member_id: assignments.get(member_id, b"") for member_id in self._group.members}
        self._outbox.add(StoreGroup(assignment, AssignmentWrite(self._group.generation, assignment)))

    def assignment_stored(self, write: AssignmentWrite, error: ErrorCode, now_ms: int) -> None:
        """Hand the assignment out, or begin again when it could not be stored."""
        group = self._group
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != write.generation:
            return  # the next rebalance has begun since and has answered everybody
        if error is not ErrorCode.NONE:
            self._fail_assignment(error)
            self.prepare(now_ms, f"the assignment could not be stored: {error.name}")
            return
        for member in group.members.values():
            member.assignment = write.assignment[member.member_id]
        group.enter(GroupState.STABLE, now_ms)
        self._outbox.note("stable", generation=group.generation, members=len(group.members))
        for member in group.members.values():
            if self._outbox.answer_sync(member, group.sync_result(member)):
                self._outbox.restart_session(member)

    def remove(self, member_id: str, error: ErrorCode) -> None:
        """Forget a member or a pending member; whatever it waits for is answered with `error`."""
        member = self._group.remove(member_id)
        self._outbox.stop_session(member_id)
        if member is not None:
            self._outbox.answer_join(member, JoinResult(error, UNKNOWN_MEMBER))
            self._outbox.answer_sync(member, SyncResult(error))

    def _wait_for_more_newcomers(self) -> bool:
        """Wait once more if somebody came, but not longer than the rebalance timeout (Kafka's InitialDelayedJoin)."""
        initial = self._initial
        if initial is None or not initial.newcomer or initial.remaining_ms == 0:
            return False
        waited_ms = initial.delay_ms
        initial.newcomer = False
        initial.delay_ms = min(self._config.group_initial_rebalance_delay_ms, initial.remaining_ms)
        initial.remaining_ms = max(initial.remaining_ms - waited_ms, 0)
        self._outbox.add(StartTimer(TimerKind.JOIN, "", initial.delay_ms))
        return True

    def _complete(self, now_ms: int) -> None:
        """Drop the dynamic members that did not come, begin the generation, answer all who wait."""
        group = self._group
        for member in list(group.members.values()):
            if member.join_callback is None and member.instance_id is None:
                self._outbox.note(
                    "member did not rejoin",
                    member=member.member_id,
                    client=member.client_id,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                )
                self.remove(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none of them has joined: they keep their places for another timeout.
            self._outbox.add(StartTimer(TimerKind.JOIN, "", max(group.rebalance_timeout_ms(), ABSENT_MEMBERS_WAIT_MS)))
            return
        self._outbox.add(StopTimer(TimerKind.JOIN, ""))
        group.next_generation(now_ms)
        self._outbox.note("generation", generation=group.generation, members=len(group.members))
        if not group.members:
            self._outbox.add(StoreGroup({}, EmptyWrite(group.generation)))
            return
        for member in group.members.values():
            self._outbox.answer_join(member, group.join_result(member))
            member.is_new = False
            self._outbox.restart_session(member)
            group.awaiting_sync.add(member.member_id)
        self._outbox.add(StartTimer(TimerKind.SYNC, "", group.rebalance_timeout_ms()))

    def _fail_assignment(self, error: ErrorCode) -> None:
        for member in self._group.members.values():
            member.assignment = b""
            if self._outbox.answer_sync(member, SyncResult(error)):
                self._outbox.restart_session(member)
