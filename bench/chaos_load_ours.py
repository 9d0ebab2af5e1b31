"""The load of chaos_load.py by our own clients."""

from contextlib import suppress

import this_tree  # noqa: F401
from chaos_load import PARTITIONS, STEP_SECONDS, TOPIC, TRANSACTION_MS, Member, Transactor, Watcher

from odradek import KafkaConsumer, KafkaError, KafkaProducer, TopicPartition
from odradek.testing.transaction_history import Outcome, Read

PLACES = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]


def reader(bootstrap: str) -> KafkaConsumer:
    """Return a read_committed reader of everything."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign(PLACES)
    return consumer


class OurTransactor(Transactor):
    """Commits and aborts that time out are waited for again, as the errors say."""

    errors = KafkaError

    def source(self) -> KafkaConsumer:
        return reader(self.bootstrap)

    def begin(self) -> KafkaProducer:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=f"chaos-{self.number}",
            transaction_timeout_ms=TRANSACTION_MS,
            request_timeout_ms=5_000,
            delivery_timeout_ms=TRANSACTION_MS,
        )
        try:
            producer.init_transactions(STEP_SECONDS)
        except KafkaError:
            self.drop(producer)
            raise
        return producer

    def read(self, source: KafkaConsumer) -> list[str]:
        return [record.value.decode() for records in source.poll(20, 5).values() for record in records]

    def write(self, producer: KafkaProducer, partition: int, value: str) -> None:
        producer.send(TOPIC, value.encode(), partition=partition)

    def goes_on(self, producer: KafkaProducer, failed: KafkaError) -> bool:
        error: KafkaError | None = failed
        while error is not None and not self.over.is_set():
            if error.fatal or not (error.retriable or error.requires_abort):
                return False
            self.aborts = self.aborts or error.requires_abort
            error = self._end_again(producer)
        return error is None

    def _end_again(self, producer: KafkaProducer) -> KafkaError | None:
        """End the transaction once more, and return what that has failed with."""
        try:
            if self.aborts:
                producer.abort_transaction(STEP_SECONDS)
                self.ended(Outcome.ABORTED)
            else:
                producer.commit_transaction(STEP_SECONDS)
                self.ended(Outcome.COMMITTED)
        except KafkaError as again:
            return again
        return None

    def drop(self, producer: KafkaProducer) -> None:
        with suppress(KafkaError):
            producer.close(0)


class OurWatcher(Watcher):
    """A read_committed reader of everything."""

    def work(self) -> None:
        source = reader(self.bootstrap)
        while not self.over.is_set():
            for place, records in source.poll(200, 500).items():
                self.reads += [Read(place.partition, record.offset, record.value.decode()) for record in records]
        source.close()


class OurMember(Member):
    """A member of a group, alone in it, that commits."""

    def work(self) -> None:
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self.bootstrap,
            group_id="chaos",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=2_000,
        )
        while not self.over.is_set():
            if not consumer.poll(300, 200):
                continue
            try:
                consumer.commit()
                for place, found in consumer.committed_offsets(*PLACES, timeout_ms=5_000).items():
                    self.commits[place.partition].append(found.offset)
            except KafkaError:
                continue  # a rebalance, a coordinator that is gone: the next commit is a new one
        with suppress(KafkaError):
            consumer.close()
