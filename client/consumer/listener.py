"""What a consumer tells its application of a rebalance."""

from collections.abc import Collection

from odradek.client.records import TopicPartition


class RebalanceListener:
    """Override what you need. Called on the application's thread, inside `poll` or `close`."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """These are given up now: the last moment to commit what was processed."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """These are new. `seek` here overrides the committed offset."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """These belong to somebody else already (too slow, or fenced): a commit would be refused."""
        self.on_partitions_revoked(lost)
