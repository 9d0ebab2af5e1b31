"""Our broker is started on a directory that Kafka has written: old formats, transactions and all; then Kafka again."""

from collections.abc import Callable

import pytest

from odradek.testing.foreign.corpus import Corpus, wait_compacted
from odradek.testing.foreign.kafkas_corpus import KafkasCorpus
from odradek.testing.foreign.relay import COMPACTED, OUR_GAPS, Relay
from odradek.testing.foreign.stage import Stage

pytestmark = pytest.mark.cluster

ALL, LAST = 5, 1
"""Batches of a producer that are known after a start: Kafka's snapshots name the last one, and we read the others."""
OLD_SETTING = "Topic configuration message.format.version with value"


def test_odradek_serves_what_kafka_wrote(new_stage: Callable[..., Stage]) -> None:
    stage = new_stage()
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
    wait_compacted(stage.address, ["compacted"])
    relay = Relay(corpus, kafkas)
    relay.note()
    kafka.stop()

    ours = stage.odradek()
    relay.check(batches_known=ALL)
    corpus.write()
    kafkas.write_old()
    kafkas.write_between(2000)
    wait_compacted(stage.address, sorted(COMPACTED))
    relay.note()
    ours.stop()
    assert not ours.complaints()

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
