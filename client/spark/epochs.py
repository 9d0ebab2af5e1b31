"""Exactly once: what a query leaves in the cluster about its epochs (micro-batches), and what that means. No I/O.

Each task writes an epoch in a transaction of its own and leaves it open; the driver, once all tasks have written, notes
its decision and then has every transaction committed. Whatever dies in between, whoever comes next can tell how far it
was. With a query named NAME (the option transactionalId, and the id in the query's checkpoint) there are, per query:

- the decision: an offset of group NAME, the number of the newest decided epoch plus one; its metadata say of how many
  tasks that epoch was, and which producer ids and epochs have its transactions (`Decision`). It is committed in a
  transaction with the id NAME, so that two drivers cannot decide at once, and it never goes back;
- a mark per task: an offset of group NAME-task-N, committed in the task's own transaction, whose id is NAME-task-N too;
  its metadata say what the task has written, as a count and a digest (`Mark`). It tells for certain whether a
  transaction that nobody can ask for any more was committed.

Epochs reuse the ids of the ones before. One for each would stay with the coordinators for a week
(transactional.id.expiration.ms); the epoch is in the decision and in the marks instead.

What dies, or hangs                         and what comes of it
------------------------------------------  --------------------------------------------------------------------------
a task, while it writes or after it has     its transaction is open; the next attempt's InitProducerId aborts it and
                                            fences the task, should it only have been slow
a task for good (the epoch fails)           the driver aborts what the other tasks have written
the driver, before its decision             the restarted query repeats the epoch: its tasks find no decision, abort
                                            what is open and write anew
the driver, in the midst of its decision    that is a transaction: it is there or not, and who asks is made to wait
                                            until it is clear (no longer than DECISION_TIMEOUT_MS)
the driver, after its decision, before      the repeated epoch's tasks find it, have their transaction of then committed
all transactions are committed              and write nothing; so the rows of then count, even if they were others now
the driver, after all, before Spark's own   the same: a commit that is repeated does no harm
commit log knows
the driver for longer than                  the coordinator has aborted what was left uncommitted. The mark says so, and
transaction.timeout.ms, at that moment      that task writes anew, if all others now give the rows they have written
                                            then (count and digest); else the query fails and says which rows are
                                            missing (failOnDataLoss=false goes on without them)
a driver that everybody believes dead and   whoever decides second fails, and replaces no decision that its tasks have
that is not                                 not seen. Slow tasks of the old one can abort those of the new one, which
                                            then fails and, restarted, repeats the epoch
a broker: a coordinator, a leader           requests are repeated until another has taken over; state of transactions
                                            and groups is replicated
everything for longer than                  decision and marks are forgotten: an epoch that was repeated only then, in
offsets.retention.minutes (a week)          the midst of its commit, would be written twice

With spark.speculation two attempts of a task run at once, and the later fences the earlier: switch it off.
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
"""offset.metadata.max.bytes of Kafka's brokers. An epoch with more tasks (about a thousand) than a note of their
transactions can hold is decided without one: should the driver die then, it is repeated as after a timeout."""
DECISION_TIMEOUT_MS = 10_000


class ProducerIdentity(NamedTuple):
    """The producer whose transaction it is."""

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
    """An epoch was committed in part, the rest is lost, and its rows are not the same any more."""


class Superseded(ClientError):  # noqa: N818 - named after what has happened
    """Failure of an epoch that another driver of the same query has decided, or a later one, since its tasks ran."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The newest decided epoch: -1 when there is none."""

    number: int = -1
    tasks: int = 0
    open: Mapping[int, ProducerIdentity] | None = None
    """Producers whose transactions are, or were, to be committed, by task; None where they did not fit."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Contents of the newest epoch that a task has committed."""

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
    """Some topic that it has written to: committed offsets need one."""
    instead: ProducerIdentity | None = None
    """Producer of the lost transaction of the same decided epoch that this one replaces."""
    began_ms: int = 0
    """Since 1970: when the transaction was begun."""
    same: bool | None = None
    """True when a task whose part was committed already has now given the same rows."""


def newest(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> OffsetAndMetadata | None:
    """Return the newest of a group's offsets: they stand under different topics when the query changes its topic."""
    return max(offsets.values(), key=lambda one: one.offset, default=None)


def decision_of(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Decision:
    """Read the decision from a query's group. Raises ClientError when somebody else uses the group."""
    found = newest(offsets)
    if found is None:
        return Decision()
    try:
        tasks, packed = found.metadata.split(" ", 1)
        return Decision(found.offset - 1, int(tasks), _unpacked(packed) if packed else None)
    except (ValueError, zlib.error) as error:
        raise ClientError(f"no decision of a sink: {found.metadata!r}: is the group another program's?") from error


def decision_offset(decision: Decision) -> OffsetAndMetadata:
    """Return what to commit for a decision."""
    packed = _packed(decision.open or {})
    said = f"{decision.tasks} {packed}"
    if len(said) > METADATA_LIMIT_BYTES:
        said = f"{decision.tasks} "
    return OffsetAndMetadata(decision.number + 1, said)


def _packed(entries: Mapping[int, ProducerIdentity]) -> str:
    """Return the ids as columns of differences, which compress well: ids are given out in sequence."""
    columns = [list(column) for column in zip(*((task, *entries[task]) for task in sorted(entries)), strict=True)]
    differences = [[column[0], *(after - before for before, after in pairwise(column))] for column in columns]
    return base64.b85encode(zlib.compress(json.dumps(differences, separators=(",", ":")).encode(), 9)).decode()


def _unpacked(packed: str) -> dict[int, ProducerIdentity]:
    columns = [list(accumulate(column)) for column in json.loads(zlib.decompress(base64.b85decode(packed)))]
    return {task: ProducerIdentity(*identity) for task, *identity in zip(*columns, strict=True)}


def mark_of(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Mark:
    """Read the mark from a task's group."""
    found = newest(offsets)
    if found is None:
        return Mark()
    records, digest = found.metadata.split(" ")
    return Mark(found.offset - 1, int(records), int(digest, 16))


def mark_offset(mark: Mark) -> OffsetAndMetadata:
    """Return what to commit for a mark."""
    return OffsetAndMetadata(mark.number + 1, f"{mark.records} {mark.digest:x}")


def decided(epoch: Epoch, before: Decision, results: list[TaskResult]) -> Decision | None:
    """Return the decision that the driver is to note; None when there is nothing to commit but what was decided.

    Raises Superseded; NotRepeatable when what was lost of an epoch cannot be written again.
    """
    written = {one.task: one.producer for one in results if one.producer is not None}
    if not written:
        return None
    noted = before.open or {} if before.number == epoch.number else {}
    unseen = [one.task for one in results if one.task in written and one.instead != noted.get(one.task)]
    if before.number > epoch.number or unseen:
        raise Superseded(
            f"{epoch.name}: epoch {epoch.number} was to be decided, but another driver of this query has decided "
            f"{before.number} meanwhile: two run at once"
        )
    repeated = [one for one in results if one.same is not None]
    others = [one.task for one in repeated if not one.same]
    changed = before.number == epoch.number and before.tasks != len(results)
    if others or changed:
        what = f"tasks {others} have other rows now" if others else f"it had {before.tasks} tasks, now {len(results)}"
        raise not_repeatable(epoch, sorted(written), what)
    return Decision(epoch.number, len(results), {**noted, **written})


def not_repeatable(epoch: Epoch, lost: list[int], why: str) -> NotRepeatable:
    """Return what to raise when the part of some tasks is lost."""
    return NotRepeatable(
        f"{epoch.name}: epoch {epoch.number} was committed in part, what tasks {lost} had written was lost "
        f"(transaction.timeout.ms), and it cannot be repeated: {why}. With failOnDataLoss=false the query goes on "
        "without these records"
    )
