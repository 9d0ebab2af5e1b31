"""Load of the demo: producers that record every acknowledgement, with offset and time."""

import threading
import time
from array import array
from collections.abc import Collection, Sequence
from functools import partial
from itertools import pairwise

from odradek import ClientError, KafkaError, KafkaProducer, RecordMetadata
from odradek.demo.cluster import TOPIC, now_ms
from odradek.demo.flights import Flight

PRODUCERS = 2
CHUNK = 50
"""Records between two looks at the clock."""
SETTINGS = {"acks": "all", "enable_idempotence": True, "linger_ms": 5, "batch_size": 32_768}
NOWHERE = -1


class Acknowledgements:
    """Acknowledgements as columns; index i is record number i.

    Offsets and partitions are -1 until the record is acknowledged.
    """

    def __init__(self, count: int) -> None:
        self.partitions = array("b", [NOWHERE]) * count
        self.offsets = array("q", [NOWHERE]) * count
        self.sent_ms = array("d", [0.0]) * count
        self.acknowledged_ms = array("d", [0.0]) * count

    def __len__(self) -> int:
        return len(self.partitions)

    def places(self) -> list[tuple[int, int] | None]:
        """List the (partition, offset) of every record; None where it was not acknowledged."""
        pairs = zip(self.partitions, self.offsets, strict=True)
        return [None if pair[0] == NOWHERE else pair for pair in pairs]

    def under_way(self, at_ms: float, partitions: Collection[int]) -> int:
        """Count the records for these partitions that were sent by a time (ms since 1970) and acknowledged after it."""
        columns = zip(self.partitions, self.sent_ms, self.acknowledged_ms, strict=True)
        return sum(1 for where, sent, done in columns if where in partitions and 0 < sent <= at_ms < done)

    def around(self, partition: int, at_ms: float) -> tuple[float | None, float | None]:
        """Return the last acknowledgement in a partition before a time, and the first one after it."""
        columns = zip(self.partitions, self.acknowledged_ms, strict=True)
        times = [done for where, done in columns if where == partition]
        before = max((done for done in times if done <= at_ms), default=None)
        return before, min((done for done in times if done > at_ms), default=None)

    def longest_pause_ms(self, partition: int) -> float:
        """Return the longest time between two acknowledgements in a partition."""
        columns = zip(self.partitions, self.acknowledged_ms, strict=True)
        times = sorted(done for where, done in columns if where == partition)
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


class Load:
    """Sender of all flights, by `PRODUCERS` idempotent producers in turn.

    Record number i is sent by producer i % PRODUCERS.
    """

    def __init__(self, bootstrap: str, flights: Sequence[Flight], rate: float) -> None:
        """`rate` is in records per second of all producers together; 0 is as fast as possible."""
        self.acknowledgements = Acknowledgements(len(flights))
        self.acknowledged_by_partition: dict[int, int] = {}
        self.failure: Exception | None = None
        self._flights = flights
        self._rate = rate / PRODUCERS
        self._sent = [0] * PRODUCERS
        self._answered = [0] * PRODUCERS
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._producers = [
            KafkaProducer(SETTINGS, bootstrap_servers=bootstrap, client_id=f"flights-{number}")
            for number in range(PRODUCERS)
        ]
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(PRODUCERS)]

    def start(self) -> None:
        """Start the threads of the producers; return at once."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Send no more, without waiting for acknowledgements."""
        self._stop.set()
        for producer in self._producers:
            producer.close(timeout=0)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    @property
    def sent(self) -> int:
        return sum(self._sent)

    @property
    def acknowledged(self) -> int:
        return sum(self._answered)

    @property
    def finished(self) -> bool:
        """True if everything was sent and answered."""
        return self.sent == len(self._flights) == self.acknowledged

    def requests_in_flight(self, broker: int) -> int:
        """Count the produce requests that were sent to a broker and are not answered."""
        node = f"producer-node-metrics.node-{broker}"
        metrics = [producer.metrics().get(node, {}) for producer in self._producers]
        return sum(int(one.get("requests-in-flight", 0)) for one in metrics)

    def _run(self, number: int) -> None:
        try:
            self._send_all(number, self._producers[number])
        except (ClientError, KafkaError) as error:
            if not self._stop.is_set():
                self.failure = error

    def _send_all(self, number: int, producer: KafkaProducer) -> None:
        began = time.monotonic()
        sent_ms = self.acknowledgements.sent_ms
        for count, index in enumerate(range(number, len(self._flights), PRODUCERS)):
            if count % CHUNK == 0 and self._stop.wait(self._too_early_seconds(count, began)):
                return
            flight = self._flights[index]
            sent_ms[index] = now_ms()
            producer.send(TOPIC, flight.value, key=flight.key, callback=partial(self._on_answer, number, index))
            self._sent[number] += 1

    def _too_early_seconds(self, count: int, began: float) -> float:
        return max(0.0, began + count / self._rate - time.monotonic()) if self._rate else 0.0

    def _on_answer(self, producer: int, index: int, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Note an answer, on the producer's own thread."""
        if metadata is None:
            if not self._stop.is_set():
                self.failure = error
            return
        columns = self.acknowledgements
        columns.offsets[index] = metadata.offset
        columns.partitions[index] = metadata.partition
        columns.acknowledged_ms[index] = now_ms()
        self._answered[producer] += 1
        with self._lock:
            by_partition = self.acknowledged_by_partition
            by_partition[metadata.partition] = by_partition.get(metadata.partition, 0) + 1
