"""Records between the loop that fetches them and the application that takes them, which may be on another thread.

The two sides have nothing in common but `Shared`. Decoding, and with it the application's deserializers, runs on the
application's thread and without the lock: the loop needs the lock to go on fetching and sending heartbeats. That is
safe, since nobody else takes chunks away, or moves the position of a partition that has chunks.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Mapping

from odradek.client.consumer.chunks import Ahead, Chunk, Reader
from odradek.client.consumer.config import ConsumerSettings, Deserializer
from odradek.client.consumer.positions import PartitionPosition, Positions
from odradek.client.errors import ClientBroken, ClientClosed, ClientError
from odradek.client.records import ConsumerRecord, TopicPartition


class Shared:
    """What the loop and the application share. `lock` guards positions and chunks, which the loop fills and `poll`
    empties. `arrived` is set only on the loop."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.arrived = asyncio.Event()
        """Set when there may be something for the application: records, a position, a turn in a rebalance, an error."""
        self.positions = Positions()
        self.chunks: dict[TopicPartition, deque[Chunk]] = {}
        """Chunks by partition, in the order in which they are to be read."""
        self.failure: Exception | None = None
        """Failure that the application's next `poll` raises, once."""
        self.ended: ClientClosed | ClientBroken | None = None
        """Why nothing is read any more: each call raises this from then on."""
        self.woken = False
        """True if the application's next poll is to return without records."""

    def notify(self) -> None:
        """Wake whoever waits for something for the application. On the loop."""
        self.arrived.set()

    def fail(self, error: Exception) -> None:
        """Hand an error to the application."""
        self.failure = error
        self.arrived.set()

    # -- for the fetcher, with the lock --------------------------------------------------------------------------------

    def keep(self, chunk: Chunk) -> None:
        """Add the records of a fetch."""
        self.chunks.setdefault(chunk.topic_partition, deque()).append(chunk)

    def holds(self, partition: TopicPartition) -> bool:
        """Tell whether records of a partition wait to be read."""
        return bool(self.chunks.get(partition))

    def refuse(self, partitions: Iterable[TopicPartition], error: Exception) -> None:
        """Hand the application an error that concerns some partitions."""
        self.failure = error

    # -- for the application -------------------------------------------------------------------------------------------

    @property
    def disturbed(self) -> bool:
        """Tell whether the next poll has something to do other than return records. Without the lock."""
        return self.failure is not None or self.ended is not None or self.woken

    def wake_up(self) -> None:
        """Have the application's next poll return without records."""
        self.woken = True

    def moved(self, partition: TopicPartition) -> None:
        """Forget a failure about this partition's position, as the application has sought another. The lock must be
        held."""
        if _place_of(self.failure) == partition:
            self.failure = None

    def take_failure(self) -> Exception | None:
        """Return the failure to raise now, if there is one, and forget it. One about a partition that is no longer
        assigned is only forgotten. Takes the lock."""
        with self.lock:
            failure, self.failure = self.failure, None
            place = _place_of(failure)
            return failure if place is None or place in self.positions.partitions else None

    def end(self, error: ClientClosed | ClientBroken) -> None:
        """Have each call from now on raise an error; the first error stays."""
        if self.ended is None:
            self.ended = error
        self.arrived.set()

    def check_open(self) -> None:
        """Raise ClientClosed or ClientBroken when the consumer has ended."""
        if self.ended is not None:
            error = type(self.ended)(*self.ended.args)
            error.__cause__ = self.ended.__cause__  # mypyc ignores the `from` of a raise
            raise error

    @property
    def readable(self) -> bool:
        """Tell whether there are bytes of a partition that is not paused. The lock must be held."""
        partitions = self.positions.partitions
        return any(tp in partitions and not partitions[tp].paused for tp in self.chunks)  # few partitions have chunks


def _place_of(error: Exception | None) -> TopicPartition | None:
    """Return the partition that an error of this client is about, if it is about one."""
    if not isinstance(error, ClientError) or error.topic is None or error.partition is None:
        return None
    return TopicPartition(error.topic, error.partition)


Records = dict[TopicPartition, list[ConsumerRecord]]


class RecordBuffer:
    """Reads the chunks in the order of arrival and moves the positions."""

    def __init__(
        self, shared: Shared, settings: ConsumerSettings, key: Deserializer | None, value: Deserializer | None
    ) -> None:
        self._shared = shared
        self._settings = settings
        self._key = key
        self._value = value
        self._readers: dict[TopicPartition, Reader] = {}
        self._turn: deque[TopicPartition] = deque()
        """Partitions that have chunks, the next to read first. They take turns: none waits for ever behind a full one.
        """
        self.room = False
        """True when a chunk has gone, so that another can be fetched. Whoever wakes the fetcher clears it."""
        self._taking = False
        """True while somebody reads records."""
        self._ahead: Ahead | None = None
        """Records that iterating has decoded ahead of those handed out."""
        self._ahead_of: PartitionPosition | None = None
        """Position of their partition, which is before the first of them."""
        self.records_taken = 0
        """Number of records handed out. Only `next_record` counts its own; the caller of `take` adds the others."""

    def take(self, limit: int) -> Records:
        """Take at most `limit` records. Raises ClientError for damaged ones and DeserializationError."""
        return self._take_ahead(limit) or self._take(limit)

    def next_record(self) -> ConsumerRecord | None:
        """Return the next record, and move the position behind it; None when there is none, or something else has to be
        done first (`Shared.disturbed`). Raises as `take`."""
        if self._shared.disturbed:
            return None
        while True:
            ahead, state = self._ahead, self._ahead_of
            if ahead is not None and state is not None:
                if state.paused:
                    self._fetch_again(ahead)
                record = ahead.next()
                if record is not None:
                    self.records_taken += 1
                    return record
            if not self._decode_ahead():
                return None

    @property
    def has_decoded(self) -> bool:
        """Tell whether there are decoded records ahead that can be handed out."""
        ahead, state = self._ahead, self._ahead_of
        return ahead is not None and bool(ahead) and state is not None and not state.paused

    def _take_ahead(self, limit: int) -> Records:
        """Return what iterating has decoded and not handed out."""
        ahead, state = self._ahead, self._ahead_of
        if not ahead or state is None:
            return {}
        if state.paused:
            self._fetch_again(ahead)
        before = {ahead.partition: (state, state.place)}
        try:
            taken = ahead.take(limit)
        except BaseException:
            self._undo(before)
            raise
        return {ahead.partition: taken} if taken else {}

    def _fetch_again(self, ahead: Ahead) -> None:
        """Drop the decoded records of a paused partition, so that others are read; `resume` has them fetched again."""
        with self._shared.lock:
            if ahead:
                self._shared.positions.go_back(ahead.partition)

    def _decode_ahead(self) -> bool:
        """Decode some records of one partition; False when there are none."""
        with self._shared.lock:
            states = self._shared.positions.partitions.items()
            before = {tp: (state, state.place) for tp, state in states}
        taken = self._take(self._settings.max_poll_records, 1)
        for topic_partition in taken:  # until `try` nothing is called: Ctrl-C comes in calls
            state, start = before[topic_partition]
            try:
                with self._shared.lock:
                    ahead = Ahead(topic_partition, taken[topic_partition], start, state.place)
                    state.hand_out(ahead)  # first: records that the position does not know of would never be dropped
                    self._ahead_of, self._ahead = state, ahead
            except BaseException:
                self._undo({topic_partition: before[topic_partition]})
                raise
        return bool(self._ahead)

    def _take(self, limit: int, most_partitions: int | None = None) -> Records:
        if self._taking:
            raise ClientError("a consumer is for one thread: another one, or a deserializer, polls while this one does")
        self._taking = True
        try:
            return self._take_by_turns(limit, most_partitions)
        finally:
            self._taking = False

    def _take_by_turns(self, limit: int, most_partitions: int | None) -> Records:
        with self._shared.lock:
            self._drop_stale()
            chunks = self._shared.chunks
            waiting = [tp for tp in self._turn if tp in chunks]
            waiting += [tp for tp in chunks if tp not in self._turn]
        self._turn = deque(waiting)
        taken: Records = {}
        before: dict[TopicPartition, tuple[PartitionPosition, tuple[int, int]]] = {}
        try:
            for topic_partition in waiting:
                state = self._shared.positions.partitions[topic_partition]
                if limit <= 0 or len(taken) == most_partitions:
                    break
                if state.paused:
                    continue
                before[topic_partition] = (state, state.place)
                self._turn.remove(topic_partition)  # to the end; paused ones keep their place
                self._turn.append(topic_partition)
                records = self._take_from(topic_partition, limit)
                if records:
                    taken[topic_partition] = records
                    limit -= len(records)
        except ClientError:
            if not taken:
                raise
            # What was taken before the error comes first; the next poll raises the error again.
        except BaseException:
            self._undo(before)
            raise
        return taken

    def _undo(self, before: Mapping[TopicPartition, tuple[PartitionPosition, tuple[int, int]]]) -> None:
        """Go back to these positions: an interrupt keeps the records that were taken from the application."""
        with self._shared.lock:
            for topic_partition, (state, place) in before.items():
                if self._shared.positions.partitions.get(topic_partition) is state:
                    state.move_to(*place)
                    self._shared.positions.go_back(topic_partition)

    def _drop_stale(self) -> None:
        """Drop the chunks of partitions that were given up, or whose position was moved elsewhere."""
        chunks, partitions = self._shared.chunks, self._shared.positions.partitions
        for topic_partition in list(chunks):
            state = partitions.get(topic_partition)
            kept = [one for one in chunks[topic_partition] if state is not None and one.version == state.version]
            self.room |= len(kept) < len(chunks[topic_partition])
            self._keep(topic_partition, deque(kept))
        for topic_partition, reader in list(self._readers.items()):
            if reader.chunk not in chunks.get(topic_partition, ()):
                del self._readers[topic_partition]

    def _take_from(self, topic_partition: TopicPartition, limit: int) -> list[ConsumerRecord]:
        state = self._shared.positions.partitions[topic_partition]
        records: list[ConsumerRecord] = []
        while not records:
            reader = self._reader(topic_partition)
            if reader is None:
                break
            records = reader.take(state.position, limit)
            with self._shared.lock:
                if records:
                    state.move_to(records[-1].offset + 1, records[-1].leader_epoch)
                if reader.finished:  # behind markers, too, which the application does not get
                    state.move_to(max(state.position, reader.chunk.next_offset), reader.chunk.last_epoch)
                    self._finish(topic_partition)
        return records

    def _reader(self, topic_partition: TopicPartition) -> Reader | None:
        """Return the reader of a partition's first chunk, if it has one."""
        if topic_partition not in self._readers:
            with self._shared.lock:
                held = self._shared.chunks.get(topic_partition)
                if not held:
                    return None
                first: Chunk = held[0]
            self._readers[topic_partition] = Reader(first, self._key, self._value, check_crcs=self._settings.check_crcs)
        return self._readers[topic_partition]

    def _finish(self, topic_partition: TopicPartition) -> None:
        del self._readers[topic_partition]
        held = self._shared.chunks[topic_partition]
        held.popleft()
        self._keep(topic_partition, held)
        self.room = True

    def _keep(self, topic_partition: TopicPartition, chunks: deque[Chunk]) -> None:
        """Put back what is left of a partition's chunks, or remove a partition that has none. The lock must be held."""
        if chunks:
            self._shared.chunks[topic_partition] = chunks
        else:
            self._shared.chunks.pop(topic_partition, None)
