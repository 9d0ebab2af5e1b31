"""Finds where to start: by a seek to a time, else the committed offset, else auto.offset.reset. On the loop."""

import logging
from collections.abc import Mapping

from odradek.client.calls import Deadline
from odradek.client.cluster import Cluster
from odradek.client.consumer.config import ConsumerSettings
from odradek.client.consumer.positions import Sought, reset_timestamp
from odradek.client.consumer.shared import Shared
from odradek.client.errors import BrokerUnreachable
from odradek.client.offsets import committed_offsets, offsets_at
from odradek.client.records import TopicPartition
from odradek.protocol.errors import KafkaError

logger = logging.getLogger(__name__)


class Locator:
    """A consumer's."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings, shared: Shared) -> None:
        self._cluster = cluster
        self._settings = settings
        self._shared = shared
        self._under_way: set[TopicPartition] = set()

    def due(self, now_ms: float) -> list[TopicPartition]:
        """With the lock: partitions to locate now. Whoever gets them calls `locate`."""
        found = [tp for tp in self._shared.positions.unlocated(now_ms) if tp not in self._under_way]
        self._under_way.update(found)
        return found

    async def locate(self, wanted: list[TopicPartition]) -> None:
        """Find their offsets; those not found are due again after a pause. Raises KafkaError, NoOffsetForPartition."""
        try:
            with self._shared.lock:
                sought = self._shared.positions.sought(wanted)
            by_time = {tp: one for tp, one in sought.items() if one.timestamp is not None}
            by_commit = {tp: one for tp, one in sought.items() if one.timestamp is None}
            await self._locate_by_time(by_time)
            await self._locate_by_time(await self._locate_by_commit(by_commit))
        except (BrokerUnreachable, TimeoutError) as error:
            logger.info("consumer %s: positions not found yet: %s", self._settings.client_id, error)
        except KafkaError as error:
            if not error.retriable:
                raise
        finally:
            with self._shared.lock:
                again_ms = self._cluster.clock.monotonic_ms() + self._settings.retry_backoff_ms
                self._shared.positions.retry_at(wanted, again_ms)
            self._under_way.difference_update(wanted)

    async def _locate_by_commit(self, wanted: Mapping[TopicPartition, Sought]) -> dict[TopicPartition, Sought]:
        """Return those without a committed offset: they are to be located by auto.offset.reset."""
        committed = {}
        if wanted and self._settings.group_id is not None:
            committed = await committed_offsets(self._cluster, self._settings.group_id, wanted, self._deadline())
        with self._shared.lock:
            for topic_partition, found in committed.items():
                self._shared.positions.locate(
                    topic_partition, wanted[topic_partition], found.offset, found.leader_epoch
                )
            self._shared.notify()
            left = self._shared.positions.sought(tp for tp in wanted if tp not in committed)
        policy = self._settings.auto_offset_reset
        return {
            tp: Sought(wanted[tp].version, reset_timestamp(policy, tp)) for tp, now in left.items() if now == wanted[tp]
        }

    async def _locate_by_time(self, wanted: Mapping[TopicPartition, Sought]) -> None:
        times = {tp: one.timestamp for tp, one in wanted.items() if one.timestamp is not None}
        if not times:
            return
        found = await offsets_at(self._cluster, times, self._settings.isolation, self._deadline())
        with self._shared.lock:
            for topic_partition, offset in found.items():
                start = offset.offset if offset is not None else 0
                self._shared.positions.locate(topic_partition, wanted[topic_partition], start)
        self._shared.notify()

    def _deadline(self) -> Deadline:
        patience_ms = self._settings.default_api_timeout_ms
        return Deadline(self._cluster, patience_ms, "finding positions", "default.api.timeout.ms")
