"""Exactly once: what a query stores in the cluster about its epochs (micro-batches), and what that means. No I/O.

Each task writes an epoch in a transaction of its own and leaves it open. Once all tasks have written, the driver stores
its decision, and then has every transaction committed. Whatever dies in between, the next attempt can tell how far it
got. For a query named NAME (the option transactionalId, and the id in the query's checkpoint) the cluster has:

- the decision: an offset of group NAME, the number of the newest decided epoch plus one. Its metadata say how many
  tasks that epoch has, and the producer ids and epochs of its transactions (`Decision`). It is committed in a
  transaction with the id NAME, so that two drivers cannot decide at once, and it never goes back;
- a mark per task: an offset of group NAME-task-N, committed in the task's own transaction, whose id is NAME-task-N,
  too. Its metadata are a count and a digest of what the task has written (`Mark`). It tells for certain whether a
  transaction was committed that coordinators no longer know.

Epochs reuse the transactional ids of earlier ones. An id for each would stay with the coordinators for a week
(transactional.id.expiration.ms); instead, the epoch is in the decision and in the marks.

What dies, or hangs                         and what follows
------------------------------------------  --------------------------------------------------------------------------
a task, while it writes or after it has     its transaction is open; the next attempt's InitProducerId aborts it and
                                            fences the task, should it only have been slow
a task for good (the epoch fails)           the driver aborts what the other tasks have written
the driver, before its decision             the restarted query repeats the epoch: its tasks find no decision, abort
                                            what is open and write anew
the driver, in the midst of its decision    that is a transaction: it is committed or not, and readers have to wait
                                            until that is clear (no longer than DECISION_TIMEOUT_MS)
the driver, after its decision, before      the repeated epoch's tasks find the decision, have their earlier transaction
all transactions are committed              committed and write nothing: the earlier rows count, even if they differ
the driver, after all, before Spark's own   the same: repeating a commit does no harm
commit log knows
the driver for longer than                  the coordinator has aborted what was left uncommitted. The mark says so, and
transaction.timeout.ms, at that moment      that task writes anew, if all others have the same rows as before (count and
                                            digest); otherwise the query fails and says which rows are missing
                                            (failOnDataLoss=false goes on without them)
a driver that is believed dead and is not   the one that decides second fails: it replaces no decision that its tasks
                                            have not seen. Slow tasks of the old one can abort those of the new one,
                                            which then fails and, restarted, repeats the epoch
a broker: a coordinator, a leader           requests are repeated until another has taken over; state of transactions
                                            and groups is replicated
everything for longer than                  decision and marks have expired: an epoch that died in the midst of its
offsets.retention.minutes (a week)          commit, and is repeated only then, is written twice

With spark.speculation two attempts of a task run at once, and the later one fences the earlier: switch it off.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from odradek.client.errors import ClientError
from odradek.client.records import OffsetAndMetadata, TopicPartition

METADATA_LIMIT_BYTES = 4096
"""offset.metadata.max.bytes of Kafka's brokers. For more than about a thousand tasks that is too little for their
transactions, and the decision does not list them: if the driver dies then, the epoch is repeated as after a timeout."""
DECISION_TIMEOUT_MS = 10_000


class ProducerIdentity(NamedTuple):
    """Id and epoch of the producer of a transaction."""

    producer_id: int
    producer_epoch: int


class Epoch(NamedTuple):
    """A micro-batch of one query."""

    name: str
    number: int

    def task_id(self, task: int) -> str:
        """Return the transactional id of a task, and the group of its mark."""
        return f"{self.name}-task-{task}"


class NotRepeatable(ClientError):  # noqa: N818 - named after what has happened
    """An epoch was committed in part, the rest is lost, and cannot be repeated, as the rows are no longer the same."""


class Superseded(ClientError):  # noqa: N818 - named after what has happened
    """Another driver of the same query has decided this epoch, or a later one, since this epoch's tasks ran."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The newest decided epoch: -1 when there is none."""

    number: int = -1
    tasks: int = 0
    open: Mapping[int, ProducerIdentity] | None = None
    """Task → the producer whose transaction is, or was, to be committed; None if they did not fit."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Newest epoch that a task has committed, with count and digest of its records."""

    number: int = -1
    records: int = 0
    digest: int = 0


class TaskResult(NamedTuple):
    """Report of a task to the driver."""

    epoch: Epoch
    task: int
    records: int = 0
    producer: ProducerIdentity | None = None
    """Producer of the task's open transaction; None when the task has written nothing."""
    topic: str = ""
    """One of the topics that the task has written to, since committed offsets need one."""
    instead: ProducerIdentity | None = None
    """Producer of the lost transaction, of the same decided epoch, that the task's new one replaces."""
    began_ms: int = 0
    """When the transaction was begun, in ms since 1970."""
    same: bool | None = None
    """If the task's part was committed before: whether its rows are the same now. Otherwise None."""


def newest(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> OffsetAndMetadata | None:
    """Return the newest of a group's offsets: after the query has changed its topic there are several."""
    return max(offsets.values(), key=lambda one: one.offset, default=None)


def decision_of(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Decision:
    """Read the decision from the offsets of a query's group. Raises ClientError when another program uses the group."""
    found = newest(offsets)
    if found is None:
        return Decision()
    try:
        tasks, packed = found.metadata.split(" ", 1)
        return Decision(found.offset - 1, int(tasks), _unpacked(packed) if packed else None)
    except (ValueError, zlib.error) as error:
        raise ClientError(
            f"{found.metadata!r} is not a sink's decision: does another program use the group?"
        ) from error


def decision_offset(decision: Decision) -> OffsetAndMetadata:
    """Return a decision in the form of an offset to commit."""
    packed = _packed(decision.open or {})
    said = f"{decision.tasks} {packed}"
    if len(said) > METADATA_LIMIT_BYTES:
        said = f"{decision.tasks} "
    return OffsetAndMetadata(decision.number + 1, said)


def _packed(entries: Mapping[int, ProducerIdentity]) -> str:
    """Return the identities as text: columns of differences, which compress well, as ids are assigned in sequence."""
    columns = [list(column) for column in zip(*((task, *entries[task]) for task in sorted(entries)), strict=True)]
    differences = [[column[0], *(after - before for before, after in pairwise(column))] for column in columns]
    return base64.b85encode(zlib.compress(json.dumps(differences, separators=(",", ":")).encode(), 9)).decode()


def _unpacked(packed: str) -> dict[int, ProducerIdentity]:
    columns = [list(accumulate(column)) for column in json.loads(zlib.decompress(base64.b85decode(packed)))]
    return {task: ProducerIdentity(*identity) for task, *identity in zip(*columns, strict=True)}


def mark_of(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Mark:
    """Read the mark from the offsets of a task's group."""
    found = newest(offsets)
    if found is None:
        return Mark()
    records, digest = found.metadata.split(" ")
    return Mark(found.offset - 1, int(records), int(digest, 16))


def mark_offset(mark: Mark) -> OffsetAndMetadata:
    """Return a mark in the form of an offset to commit."""
    return OffsetAndMetadata(mark.number + 1, f"{mark.records} {mark.digest:x}")


def decided(epoch: Epoch, before: Decision, results: list[TaskResult]) -> Decision | None:
    """Return the decision that the driver has to store; None when the tasks have written nothing new.

    Raises Superseded; NotRepeatable when the lost part of an epoch cannot be written again.
    """
    written = {one.task: one.producer for one in results if one.producer is not None}
    if not written:
        return None
    noted = before.open or {} if before.number == epoch.number else {}
    unseen = [one.task for one in results if one.task in written and one.instead != noted.get(one.task)]
    if before.number > epoch.number or unseen:
        raise Superseded(
            f"{epoch.name}: epoch {epoch.number} was not decided, because another driver of this query has decided "
            f"{before.number} meanwhile: stop one of the two"
        )
    repeated = [one for one in results if one.same is not None]
    others = [one.task for one in repeated if not one.same]
    changed = before.number == epoch.number and before.tasks != len(results)
    if others or changed:
        what = f"tasks {others} have other rows now" if others else f"it had {before.tasks} tasks, now {len(results)}"
        raise not_repeatable(epoch, sorted(written), what)
    return Decision(epoch.number, len(results), {**noted, **written})


def not_repeatable(epoch: Epoch, lost: list[int], why: str) -> NotRepeatable:
    """Return the error for an epoch in which the parts of some tasks are lost."""
    return NotRepeatable(
        f"{epoch.name}: epoch {epoch.number} was committed in part; what tasks {lost} had written was lost "
        f"(transaction.timeout.ms) and cannot be repeated: {why}. With failOnDataLoss=false the query goes on "
        "without these records"
    )
