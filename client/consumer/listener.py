"""What a consumer tells its application of a rebalance."""

from collections.abc import Collection
from typing import Any

from odradek.client.records import TopicPartition


class RebalanceListener:
    """Override what you need. Called inside `poll` or `close`, with `odradek.aio` also as coroutines."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Any:
        """These are given up now: the last moment to commit what was processed."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Any:
        """These are new. `seek` here overrides the committed offset."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Any:
        """These belong to somebody else already (too slow, or fenced): a commit would be refused."""
        return self.on_partitions_revoked(lost)
