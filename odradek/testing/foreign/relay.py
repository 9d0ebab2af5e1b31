"""A corpus that goes from broker to broker: each has to serve what the one before it has left, and then adds to it."""

from dataclasses import dataclass, field, fields

from odradek.protocol.errors import ErrorCode
from odradek.testing.foreign import kafkas_corpus
from odradek.testing.foreign.corpus import (
    CODEC_TOPICS,
    READERS,
    STAYING,
    TOPICS,
    TRIMMED_TO,
    Corpus,
    SeenGroup,
    SequencedProducer,
    see_group,
)
from odradek.testing.foreign.interface import Record
from odradek.testing.foreign.kafkas_corpus import OFFSETS_GROUP, OLD_COMPACTED, OLD_TOPICS, KafkasCorpus
from odradek.testing.foreign.seen import SeenRecord, SeenTopic, see

COMPACTED = frozenset({"compacted", *OLD_COMPACTED})
WITHOUT_TIMES = frozenset(topic for topic, (magic, _) in OLD_TOPICS.items() if magic == 0)
"""Kafka takes a segment of format 0 to be as old as its file, looks no further and finds no offset for a time."""
DIFFERENCE_CHARACTERS = 400
OUR_GAPS = ("Error processing append operation on partition sequenced-0", "OutOfOrderSequenceException")
"""What Kafka's log says of `check_producer`."""


@dataclass
class Relay:
    """`note` when one broker has written, `check` when the next one has started."""

    corpus: Corpus
    kafkas: KafkasCorpus | None = None
    seen: dict[str, SeenTopic] = field(default_factory=dict)
    groups: dict[str, SeenGroup] = field(default_factory=dict)

    def _see(self) -> dict[str, SeenTopic]:
        return see(self.corpus.address, [*TOPICS, *(kafkas_corpus.TOPICS if self.kafkas else ())])

    def _see_groups(self) -> dict[str, SeenGroup]:
        groups = (READERS, STAYING, OFFSETS_GROUP) if self.kafkas else (READERS, STAYING)
        return {group: see_group(self.corpus.address, group) for group in groups}

    def note(self) -> None:
        """Note what is to be found later; it is what was sent."""
        self.seen, self.groups = self._see(), self._see_groups()
        check_sent(self.corpus, self.seen)
        if self.kafkas is not None:
            kafkas_corpus.check_sent(self.kafkas, self.seen)

    def check(self, *, batches_known: int, copied: bool = False) -> None:
        """Compare with what was noted. `batches_known`: of the sequenced producer, at least.

        `copied`: the broker has replicas that it fetched from another one: the first segment may begin elsewhere,
        and there are new epochs.
        """
        now = self._see()
        for topic, seen in self.seen.items():
            if copied:
                now[topic].segments, now[topic].epochs = seen.segments, seen.epochs
            if topic in COMPACTED:
                _check_compacted(topic, seen, now[topic])
            else:
                if topic in WITHOUT_TIMES:
                    now[topic].by_time = seen.by_time
                assert now[topic] == seen, _differences(topic, seen, now[topic])
        groups = self._see_groups()
        assert groups == self.groups, (groups, self.groups)
        check_producer(self.corpus.address, self.corpus.producer, batches_known)


def _differences(topic: str, before: SeenTopic, after: SeenTopic) -> str:
    """Return what is only in the one or the other, shortened."""
    lines = [topic]
    for part in fields(SeenTopic):
        one, other = getattr(before, part.name), getattr(after, part.name)
        if isinstance(one, dict):
            one, other = tuple(one.items()), tuple(other.items())
        if one == other:
            continue
        if isinstance(one, tuple):
            one, other = [x for x in one if x not in other], [x for x in other if x not in one]
        lines.append(f"{part.name}: {str(one)[:DIFFERENCE_CHARACTERS]} became {str(other)[:DIFFERENCE_CHARACTERS]}")
    return "\n".join(lines)


def _check_compacted(topic: str, before: SeenTopic, after: SeenTopic) -> None:
    """Check that nothing is gone but what a later record replaces."""
    assert set(after.records) <= set(before.records), topic
    assert _latest(after.records) == _latest(before.records), topic
    assert (after.start, after.end, after.last_stable) == (before.start, before.end, before.last_stable), topic
    assert (after.epochs, after.producers) == (before.epochs, before.producers), topic


def _latest(records: tuple[SeenRecord, ...]) -> dict[bytes | None, SeenRecord]:
    return {record.key: record for record in records}


def as_sent(records: tuple[SeenRecord, ...]) -> list[Record]:
    return [Record(one.key, one.value, one.headers, one.timestamp_ms) for one in records]


def check_sent(corpus: Corpus, seen: dict[str, SeenTopic]) -> None:
    """Check that what is read is what was written, whatever has become of it on its way."""
    for topic in CODEC_TOPICS:
        sent = corpus.sent[topic]
        assert as_sent(seen[topic].records) == sent, topic
        assert [record.offset for record in seen[topic].records] == list(range(len(sent))), topic
        assert len(seen[topic].segments) > 2, topic
    trimmed = seen["trimmed"]
    assert trimmed.start == TRIMMED_TO and as_sent(trimmed.records) == corpus.sent["trimmed"][TRIMMED_TO:]
    times_set = seen["append-time"].records
    assert {record.timestamp_type for record in times_set} == {2}
    assert [one.value for one in times_set] == [one.value for one in corpus.sent["append-time"]]
    compacted = seen["compacted"].records
    assert {one.key: one.value for one in compacted} == {one.key: one.value for one in corpus.sent["compacted"]}
    sequences = [f"sequence {number}".encode() for number in range(corpus.producer.sequence)]
    assert [record.value for record in seen["sequenced"].records] == sequences


def check_producer(address: str, producer: SequencedProducer, batches_known: int) -> None:
    """The last batches are known again and answered with their offsets; older ones and gaps are refused."""
    for sequence, count, base_offset in producer.sent[-batches_known:]:
        assert producer.offer(address, sequence, count) == (ErrorCode.NONE, base_offset), sequence
    sequence, count, _ = producer.sent[-6]
    assert producer.offer(address, sequence, count)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.offer(address, producer.sequence + 1, 1)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
