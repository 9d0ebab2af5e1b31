"""Every batch of random producers gets the verdict of Kafka's own ProducerStateManager, and leaves the same behind.

But for one: what repeats a batch of a transaction that has ended is refused here, and a duplicate there.
"""

import random
import subprocess
from pathlib import Path

import pytest

from odradek.broker.log.batches import Origin
from odradek.broker.log.log import Log
from odradek.broker.log.producer_sequences import LARGEST_SEQUENCE, sequence_after
from odradek.broker.log.producer_snapshots import decode_snapshot, encode_snapshot
from odradek.broker.log.producer_state import ProducerState
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.control_records import EndTxnMarker, encode_end_txn_marker
from odradek.protocol.errors import KafkaError
from odradek.protocol.record_batch import set_base_offset
from odradek.testing.foreign.kafka_jars import KafkaJars
from odradek.testing.log_environments import make_batch, make_environment, open_test_log
from odradek.testing.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).parent / "java" / "Producers.java"
EXPIRATION_MS = 1000
STEPS = 3000


class Ours:
    """A log of ours; `lines` is what is told to Kafka, `said` what was made of it here."""

    def __init__(self, seed: int) -> None:
        self.log: Log = open_test_log(make_environment(), LogConfig(segment_bytes=1 << 30), clean=True)
        self.choose = random.Random(seed)
        self.lines: list[str] = []
        self.said: list[str] = []
        self.now_ms = 1_000_000
        self.high_watermark = 0
        self.sent: dict[int, list[tuple[int, int, int]]] = {}
        """By producer: (epoch, sequence, count) of what it has sent, right or wrong."""
        self.late: set[int] = set()
        """Steps that repeat a batch of a transaction that has ended."""

    def step(self) -> None:
        self.now_ms += self.choose.randrange(40)
        kind = self.choose.random()
        if kind < 0.02:
            self._expire()
        elif kind < 0.04:
            self._reload()
        elif kind < 0.15:
            self._marker(self.choose.randrange(1, 6))
        else:
            self._data(self.choose.randrange(1, 6))

    def _data(self, producer: int) -> None:
        choose, known = self.choose, self.log.producers.producers.get(producer)
        epoch, sequence = 0, choose.choice([0, LARGEST_SEQUENCE - 3])
        if known is not None:
            epoch, sequence = known.epoch, sequence_after(known.last_sequence, 1)
        count = choose.randrange(1, 4)
        oddity = choose.random()
        sent = self.sent.setdefault(producer, [])
        if oddity < 0.2 and sent:
            epoch, sequence, count = choose.choice(sent[-7:])
        elif oddity < 0.3:
            sequence = sequence_after(sequence, choose.randrange(-3, 4))
        elif oddity < 0.37:
            epoch, sequence = epoch + choose.choice([-1, 1, 1]), choose.choice([0, 0, sequence])
        open_since = known.transaction_first_offset if known is not None else -1
        transactional = choose.random() < (0.9 if open_since >= 0 else 0.3)
        origin = Origin.COORDINATOR if choose.random() < 0.1 else Origin.CLIENT
        sent.append((max(epoch, 0), sequence, count))
        batch = make_batch(
            [b"v"] * count,
            producer_id=producer,
            producer_epoch=max(epoch, 0),
            sequence=sequence,
            transactional=transactional,
            timestamp_ms=self.now_ms,
        )
        self._offer(batch, origin)

    def _marker(self, producer: int) -> None:
        known = self.log.producers.producers.get(producer)
        epoch, coordinator = (known.epoch, known.coordinator_epoch) if known is not None else (0, 0)
        epoch = max(0, epoch + self.choose.choice([-1, 0, 0, 0, 0, 1]))
        coordinator = max(0, coordinator + self.choose.choice([-1, 0, 0, 0, 1]))
        end = EndTxnMarker(self.choose.random() < 0.5, coordinator)
        self._offer(encode_end_txn_marker(end, self.now_ms, producer, epoch), Origin.COORDINATOR)

    def _offer(self, batch: bytearray, origin: Origin) -> None:
        told = bytearray(batch)
        set_base_offset(told, 0, self.log.log_end_offset)
        aborted = len(self.log.active.transactions.entries())
        ended_before = self.high_watermark
        try:
            appended = self.log.append_as_leader(batch, 0, origin=origin)
        except KafkaError as error:
            said = error.code.name
            if "in a transaction that has ended" in str(error):
                self.late.add(len(self.lines))
        else:
            said = "ok"
            if appended.duplicate:
                said = f"duplicate {appended.first_offset} {appended.last_offset} {appended.log_append_time_ms}"
            else:
                self.high_watermark = max(ended_before, self.log.log_end_offset - self.choose.choice([0, 0, 2, 9]))
        for one in self.log.active.transactions.entries()[aborted:]:
            said += " aborted " + " ".join(map(str, one[1:]))
        self._note(f"data {origin.name} {self.high_watermark} {told.hex()}", said)

    def _expire(self) -> None:
        self.log.producers.expire(self.now_ms, EXPIRATION_MS)
        self._note(f"expire {self.now_ms}", "expire")

    def _reload(self) -> None:
        """As at a start, before the last batches are looked for in the log."""
        end, data = self.log.log_end_offset, encode_snapshot(self.log.producers.producers.values())
        self.log.producers = ProducerState(end, decode_snapshot(data))
        self.log.producers.expire(self.now_ms, EXPIRATION_MS)
        self._note(f"reload {self.now_ms}", "reload")

    def _note(self, line: str, said: str) -> None:
        state = self.log.producers
        unstable = state.first_unstable_offset(self.high_watermark)
        producers = []
        for one in state.producers.values():
            last = one.batches[-1].last_offset if one.batches else -1
            values = (one.producer_id, one.epoch, one.last_sequence, last, one.last_timestamp_ms, one.coordinator_epoch)
            producers.append(":".join(map(str, (*values, one.transaction_first_offset, len(one.batches)))))
        self.lines.append(line)
        self.said.append(f"{said} unstable {-1 if unstable is None else unstable} {','.join(sorted(producers))}")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_verdict_on_every_batch(kafka: KafkaJars, tmp_path: Path, seed: int) -> None:
    ours = Ours(seed)
    for _ in range(STEPS):
        ours.step()
    command = kafka.program(PROGRAM, str(tmp_path))
    given = "\n".join(ours.lines) + "\n"
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = [line.rstrip() for line in done.stdout.splitlines() if " unstable " in line]
    for number, (mine, its) in enumerate(zip(ours.said, theirs, strict=True)):
        if number in ours.late:
            assert its.startswith("duplicate ")
            mine, its = (said.partition(" unstable ")[2] for said in (mine, its))
        assert mine.rstrip() == its, f"step {number} of seed {seed}: {ours.lines[number]}"
    assert 0 < len(ours.late) < STEPS / 10
    verdicts = {line.split()[0] for line in theirs}
    assert verdicts >= {
        "ok", "duplicate", "expire", "reload", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH",
        "INVALID_TXN_STATE", "TRANSACTION_COORDINATOR_FENCED",
    }  # fmt: skip
    assert any(" aborted " in line for line in theirs)
