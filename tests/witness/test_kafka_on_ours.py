"""Kafka's broker is started on a directory that ours has written, and serves it; then ours again, and so on."""

from collections.abc import Callable

import pytest

from odradek.testing.foreign.corpus import (
    CODEC_TOPICS,
    CODECS,
    COMMITS,
    READERS,
    Corpus,
    SequencedProducer,
    wait_compacted,
)
from odradek.testing.foreign.dump_log_segments import Run, all_checks, dump_each, files_of
from odradek.testing.foreign.relay import OUR_GAPS, Relay
from odradek.testing.foreign.stage import Stage

pytestmark = pytest.mark.cluster

ALL, LAST = 5, 1
"""Batches of a producer that are known after a start: Kafka's snapshots name the last one, and we read the others."""


def test_kafka_serves_what_odradek_wrote(new_stage: Callable[..., Stage]) -> None:
    """Clean stops first: Kafka has nothing to complain of, nothing to repair."""
    stage = new_stage(log_directories=2)
    ours = stage.odradek()
    corpus = Corpus(stage.address)
    corpus.create()
    corpus.write()
    corpus.trim()
    wait_compacted(stage.address, ["compacted", "__consumer_offsets"])
    relay = Relay(corpus)
    relay.note()
    ours.stop()
    check_dumps(stage)

    kafka = stage.kafka()
    relay.check(batches_known=LAST)
    assert SequencedProducer.begin(stage.address, "sequenced").producer_id > corpus.producer.producer_id
    corpus.write()
    relay.note()
    kafka.stop()
    assert not kafka.complaints(but=OUR_GAPS)
    assert "Skipping recovery of" in kafka.said() and "Recovering" not in kafka.said()

    ours = stage.odradek()
    relay.check(batches_known=ALL)
    corpus.write()
    relay.note()
    ours.kill()

    kafka = stage.kafka()
    relay.check(batches_known=LAST)
    kafka.kill()
    assert not kafka.complaints(but=OUR_GAPS)

    ours = stage.odradek()
    relay.check(batches_known=ALL)
    ours.stop()
    assert not ours.complaints()


def check_dumps(stage: Stage) -> None:
    """Kafka's tool has no complaint of any file."""
    without_gaps = files_of(*map(stage.directory, (*CODEC_TOPICS, "sequenced")))
    groups = files_of(*stage.directories("__consumer_offsets"), suffixes=(".log",))
    more = [Run(without_gaps, ["--deep-iteration"]), Run(groups, ["--offsets-decoder"], gaps=True)]
    text, _, _, _, said = dump_each(stage.jars, [*all_checks(stage.directories()), *more])
    assert all(f"compresscodec: {codec} " in text for codec in CODECS)
    assert "LogAppendTime: " in text and "firstSequence: 15 lastSequence: 20 lastOffset: 20 offsetDelta: 5 " in text
    for topic in CODEC_TOPICS:
        key = f'key: {{"type":"1","data":{{"group":"{READERS}","topic":"{topic}","partition":0}}}}'
        commits = [line for line in said.splitlines() if key in line]
        assert '"data":{"offset":57,"leaderEpoch":-1,' in commits[-1], topic
        assert len(commits) < COMMITS, "not compacted"
    assert '"type":"2","data":{"group":"staying"}' in said and '"groupInstanceId":"one"' in said
