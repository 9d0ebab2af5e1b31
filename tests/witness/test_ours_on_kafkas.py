"""Our broker is started on a directory that Kafka has written: old formats, transactions and all; then Kafka again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.testing.foreign.corpus import Corpus, wait_compacted
from odradek.testing.foreign.dump_log_segments import Run, all_checks, dump_each, files_of
from odradek.testing.foreign.kafkas_corpus import OFFSETS_GROUP, TRANSACTIONS, KafkasCorpus
from odradek.testing.foreign.relay import COMPACTED, OUR_GAPS, Relay
from odradek.testing.foreign.stage import Stage

pytestmark = pytest.mark.cluster

ALL, LAST = 5, 1
"""Batches of a producer that are known after a start: Kafka's snapshots name the last one, and we read the others."""
OLD_SETTING = "Topic configuration message.format.version with value"


def test_odradek_serves_what_kafka_wrote(new_stage: Callable[..., Stage]) -> None:
    stage = new_stage(log_directories=2)
    kafka = stage.kafka(inter_broker_protocol_version="2.8")
    corpus, kafkas = Corpus(stage.address), KafkasCorpus(stage.address)
    corpus.create()
    corpus.write()
    corpus.trim()
    kafkas.create()
    kafkas.write_old()
    kafkas.write_transactions()
    kafkas.leave_open()
    kafka.stop()

    kafka = stage.kafka()
    wait_compacted(stage.address, ["compacted", "__consumer_offsets"])
    relay = Relay(corpus, kafkas)
    relay.note()
    kafka.stop()

    ours = stage.odradek()
    relay.check(batches_known=ALL)
    corpus.write()
    kafkas.write_old()
    kafkas.write_between(2000)
    wait_compacted(stage.address, ["__consumer_offsets", *COMPACTED])
    relay.note()
    ours.stop()
    assert not ours.complaints()
    check_dumps(stage)

    kafka = stage.kafka()
    relay.check(batches_known=LAST)
    kafkas.abort_open()
    corpus.write()
    relay.note()
    kafka.kill()
    assert not kafka.complaints(but=(*OUR_GAPS, OLD_SETTING))

    ours = stage.odradek()
    relay.check(batches_known=ALL)
    ours.stop()
    assert not ours.complaints()


def check_dumps(stage: Stage) -> None:
    """Kafka's tool has no complaint of any file, and finds in them what there is to be found."""
    decoded = [
        Run(logs_of(stage, "__transaction_state"), ["--transaction-log-decoder"]),
        Run(logs_of(stage, "__consumer_offsets"), ["--offsets-decoder"], gaps=True),
    ]
    text, _, _, states, groups = dump_each(stage.jars, [*all_checks(stage.directories()), *decoded])
    assert all(f"compresscodec: {codec} " in text for codec in ("none", "gzip", "snappy", "lz4", "zstd"))
    assert all(f"magic: {magic} " in text for magic in (0, 1, 2))
    assert "endTxnMarker: ABORT" in text and "lastStableOffset: " in text
    assert (
        "transactionalId=open payload: producerId:3,producerEpoch:0,state=Ongoing,partitions=[transactions-0]" in states
    )
    key = f'"group":"{OFFSETS_GROUP}","topic":"{TRANSACTIONS}","partition":0'
    assert key in groups


def logs_of(stage: Stage, topic: str) -> list[Path]:
    return files_of(*stage.directories(topic), suffixes=(".log",))
