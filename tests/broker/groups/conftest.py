"""A whole coordinator on a clock that the test moves and a log in memory that acknowledges when the test says so."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

import pytest

from odradek.broker.groups.group import CommitRequest
from odradek.broker.groups.group_coordinator import GroupCoordinator
from odradek.broker.groups.group_effects import JoinRequest, JoinResult, SyncRequest, SyncResult
from odradek.broker.groups.group_offsets import CommittedOffset
from odradek.broker.requests.describe_groups import described
from odradek.broker.settings.coordinator_settings import GroupSettings
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_groups import DescribedGroup
from odradek.protocol.record_batch import batches, read_header, set_base_offset
from odradek.protocol.records import decode_records
from odradek.protocol.topic_names import PartitionKey
from odradek.testing.virtual_clock import ManualClock
from odradek.world import periodic

T = TypeVar("T")

SESSION_MS = 10_000
REBALANCE_MS = 60_000
Done = Callable[[ErrorCode], None]


class MemoryLog:
    """TopicStorage: partitions as lists of batches. `held` keeps acknowledgements back, `error` refuses appends.

    Batches of more than `max_message_bytes` are refused, by default of more than Kafka's default.
    """

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.end_offsets: dict[int, int] = {}
        self.error = ErrorCode.NONE
        self.max_message_bytes = 1_048_588
        self.read_error: Exception | None = None
        self.held = False
        self.waiting: list[Done] = []
        self.timeouts_ms: set[int] = set()

    def append(self, partition: int, records: bytearray, timeout_ms: int, done: Done) -> None:
        self.timeouts_ms.add(timeout_ms)
        error = self._refusal(records)
        if error is not ErrorCode.NONE:
            done(error)
            return
        self._add(partition, records)
        if self.held:
            self.waiting.append(done)
        else:
            done(ErrorCode.NONE)

    def append_alone(self, partition: int, records: bytearray) -> ErrorCode:
        error = self._refusal(records)
        if error not in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS):
            return error
        self._add(partition, records)
        return ErrorCode.NONE

    def _refusal(self, records: bytearray) -> ErrorCode:
        return ErrorCode.MESSAGE_TOO_LARGE if len(records) > self.max_message_bytes else self.error

    def _add(self, partition: int, records: bytearray) -> None:
        end = self.end_offsets.get(partition, 0)
        set_base_offset(records, 0, end)
        self.end_offsets[partition] = read_header(records).next_offset
        self.batches.setdefault(partition, []).append(bytes(records))

    def acknowledge(self, error: ErrorCode = ErrorCode.NONE) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(error)

    def read(self, partition: int, offset: int, max_bytes: int) -> tuple[bytes, int]:
        if self.read_error is not None:
            raise self.read_error
        wanted = [batch for batch in self.batches.get(partition, []) if read_header(batch).last_offset >= offset]
        data = b"".join(wanted)
        first = len(wanted[0]) if wanted else 0
        return data[: max(max_bytes, first)], self.end_offsets.get(partition, 0)

    def log_start_offset(self, partition: int) -> int:
        return 0

    def records(self, partition: int) -> list[tuple[bytes, bytes | None]]:
        pairs: list[tuple[bytes, bytes | None]] = []
        for batch in self.batches.get(partition, []):
            for position, _ in batches(batch):
                columns = decode_records(batch, position)
                pairs.extend((key, value) for key, value in zip(columns.keys, columns.values, strict=True) if key)
        return pairs


def subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription of version 0."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


@dataclass
class World:
    """The coordinator and everything around it, with short forms of requests."""

    config: GroupSettings
    clock: ManualClock = field(default_factory=ManualClock)
    log: MemoryLog = field(default_factory=MemoryLog)
    seed: int = 1
    loaded: bool = True

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.coordinator = self.broker()
        for partition in range(self.config.offsets_topic_num_partitions if self.loaded else 0):
            self.coordinator.on_elected(partition, 0)
        self.clock.advance()

    @staticmethod
    def only(answers: list[T]) -> T:
        """The one answer that has come."""
        return only(answers)

    @staticmethod
    def subscription(*topics: str) -> bytes:
        """Metadata of a consumer."""
        return subscription(*topics)

    def broker(self) -> GroupCoordinator:
        """Another coordinator over the same log."""
        count = self.config.offsets_topic_num_partitions
        coordinator = GroupCoordinator(self.clock, self.random, self.log, self.config, lambda: count)
        coordinator.start()
        return coordinator

    def attempt(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        version: int = 3,
        protocols: tuple[tuple[str, bytes], ...] = (("range", subscription("t")),),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> JoinRequest:
        return JoinRequest(
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            fresh_member_id=self.coordinator.fresh_member_id(instance_id or "client"),
            member_id_required=version >= 4,
            skip_assignment_known=version >= 9,
        )

    def join(self, group: str = "g", **what: object) -> list[JoinResult]:
        """The list fills when the answer comes."""
        answers: list[JoinResult] = []
        self.coordinator.join(group, self.attempt(**what), answers.append)  # type: ignore[arg-type]
        return answers

    def sync(
        self, joined: JoinResult, assignments: dict[str, bytes] | None = None, group: str = "g", **other: object
    ) -> list[SyncResult]:
        answers: list[SyncResult] = []
        attempt = SyncRequest(joined.member_id, None, joined.generation, None, None, assignments or {})
        self.coordinator.sync(group, replace(attempt, **other), answers.append)  # type: ignore[arg-type]
        return answers

    def heartbeat(self, joined: JoinResult, group: str = "g", instance_id: str | None = None) -> ErrorCode:
        return self.coordinator.heartbeat(group, joined.member_id, instance_id, joined.generation)

    def leave(self, member_id: str, instance_id: str | None = None, group: str = "g") -> ErrorCode:
        error, errors = self.coordinator.leave(group, [(member_id, instance_id)])
        return error or errors[0]

    def stable(self, count: int, group: str = "g", **what: object) -> list[JoinResult]:
        """A stable group of `count` members; the leader comes first."""
        waiting = [self.join(group, **what) for _ in range(count)]
        self.clock.advance(2 * self.config.group_initial_rebalance_delay_ms)
        return self.synced([only(answers) for answers in waiting], group)

    def synced(self, joined: list[JoinResult], group: str = "g") -> list[JoinResult]:
        """Everybody syncs; each is assigned its own id. The leader comes first in what is returned."""
        assert {one.error for one in joined} == {ErrorCode.NONE}
        assignments = {one.member_id: one.member_id.encode() for one in joined}
        answers = [self.sync(one, assignments if one.member_id == one.leader else None, group) for one in joined]
        for one, answer in zip(joined, answers, strict=True):
            assert only(answer).error is ErrorCode.NONE
            assert only(answer).assignment == one.member_id.encode()
        return sorted(joined, key=lambda one: one.member_id != one.leader)

    def commit_attempt(
        self,
        offsets: dict[PartitionKey, int],
        joined: JoinResult | None = None,
        metadata: str = "",
        expire_ms: int = -1,
    ) -> CommitRequest:
        """By a member, or by hand."""
        now_ms = self.clock.now_ms()
        return CommitRequest(
            member_id=joined.member_id if joined else "",
            instance_id=None,
            generation=joined.generation if joined else -1,
            offsets={
                at: CommittedOffset(offset, now_ms, metadata=metadata, expire_timestamp_ms=expire_ms)
                for at, offset in offsets.items()
            },
        )

    def commit(
        self,
        offsets: dict[PartitionKey, int],
        joined: JoinResult | None = None,
        group: str = "g",
        metadata: str = "",
        expire_ms: int = -1,
    ) -> list[dict[PartitionKey, ErrorCode]]:
        """The list fills when the answer comes."""
        answers: list[dict[PartitionKey, ErrorCode]] = []
        self.coordinator.commit(group, self.commit_attempt(offsets, joined, metadata, expire_ms), answers.append)
        return answers

    def offsets(self, group: str = "g") -> dict[PartitionKey, int]:
        """All that the group has committed."""
        error, fetched = self.coordinator.fetch_offsets(group, None, require_stable=False)
        assert error is ErrorCode.NONE, error
        return {at: one.offset for at, one in fetched.items()}

    def state(self, group: str = "g") -> str:
        return self.describe(group).group_state

    def describe(self, group: str = "g") -> DescribedGroup:
        return described(self.coordinator, group)


def only(answers: list[T]) -> T:
    """The one answer that has come."""
    assert len(answers) == 1, answers
    return answers[0]


@pytest.fixture(autouse=True)
def nothing_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What fails for one group is only logged, and done for the others."""
    yield
    failed = [record.getMessage() for record in caplog.get_records("call") if record.name == periodic.log.name]
    assert not failed


@pytest.fixture
def world() -> World:
    """One broker that coordinates everything, with Kafka's settings."""
    return World(GroupSettings(offsets_topic_num_partitions=2))


@pytest.fixture
def make_world() -> Callable[..., World]:
    """A world of other settings."""

    def make(*, loaded: bool = True, seed: int = 1, log: MemoryLog | None = None, **settings: int) -> World:
        config = GroupSettings(**{"offsets_topic_num_partitions": 2} | settings)
        return World(config, log=log or MemoryLog(), seed=seed, loaded=loaded)

    return make
