"""Replicas move from Kafka's broker to ours and back: whatever a log holds is copied as it is."""

from collections.abc import Callable

import pytest

from odradek.testing.foreign import corpus as new_formats
from odradek.testing.foreign import kafkas_corpus as old_formats
from odradek.testing.foreign.corpus import Corpus
from odradek.testing.foreign.kafkas_corpus import KafkasCorpus
from odradek.testing.foreign.mixed_admin import reassign
from odradek.testing.foreign.relay import OUR_GAPS, Relay
from odradek.testing.foreign.stage import Stage

pytestmark = pytest.mark.cluster

KAFKA, OURS = 0, 1
EVERYTHING = [*new_formats.TOPICS, *old_formats.TOPICS]
COORDINATORS = {"__consumer_offsets": 2, "__transaction_state": 2}
ALL_BATCHES = 5


def test_replicas_of_every_kind_move_to_ours_and_back(new_stage: Callable[..., Stage]) -> None:
    stages = {KAFKA: new_stage(KAFKA), OURS: new_stage(OURS)}
    corpus, kafkas = Corpus(stages[KAFKA].address), KafkasCorpus(stages[KAFKA].address)
    kafka = stages[KAFKA].kafka(inter_broker_protocol_version="2.8")
    corpus.create()
    corpus.write()
    corpus.trim()
    kafkas.create()
    kafkas.write_old()
    kafkas.write_transactions()
    kafkas.leave_open()
    kafka.stop()

    kafka = stages[KAFKA].kafka()
    relay = Relay(corpus, kafkas)
    relay.note()
    ours = stages[OURS].odradek()
    partitions = {**dict.fromkeys(EVERYTHING, 1), **COORDINATORS}
    reassign(stages, partitions, OURS)
    corpus.address = kafkas.address = stages[OURS].address
    relay.check(batches_known=ALL_BATCHES, copied=True)
    corpus.write()
    kafkas.write_old()
    kafkas.write_between(2000)
    relay.note()

    reassign(stages, partitions, KAFKA)
    corpus.address = kafkas.address = stages[KAFKA].address
    relay.check(batches_known=ALL_BATCHES, copied=True)
    kafkas.abort_open()
    corpus.write()
    relay.note()
    ours.stop()
    kafka.stop()
    assert not [line for line in ours.complaints() if " WARNING " not in line]
    assert not [line for line in kafka.complaints(but=OUR_GAPS) if "] ERROR " in line]
