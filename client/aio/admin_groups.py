"""Admin's methods about groups, offsets, transactions and producers."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from odradek.client import arguments
from odradek.client.admin import groups, hanging_transactions, transactions
from odradek.client.admin.values import (
    AbortTransactionSpec,
    GroupDescription,
    GroupListing,
    HangingTransaction,
    MemberToRemove,
    PartitionLag,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from odradek.client.aio.opening import AdminBase
from odradek.client.calls import Deadline
from odradek.client.offsets import committed_offsets, offsets_at
from odradek.client.records import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

LOWEST_SPEC = -5
"""The lowest of the numbers that stand for offsets by their meaning: the latest in remote storage (KIP-1005)."""
LONGEST_TRANSACTION_MS = 900_000
"""Longest transaction: transaction.max.timeout.ms, unless a broker has another."""


class GroupsAdmin(AdminBase):
    """Groups with their offsets, and transactions."""

    # -- groups --------------------------------------------------------------------------------------------------------

    async def list_groups(
        self,
        broker_ids: Iterable[int] | None = None,
        states_filter: Sequence[str] | None = None,
        types_filter: Sequence[str] | None = None,
    ) -> list[GroupListing]:
        """Return all groups, or those of these brokers, states (Stable, Empty, …) and types (classic, …)."""
        states, types = arguments.texts(states_filter or (), "state"), arguments.texts(types_filter or (), "type")
        return await self._run(
            "listing groups",
            lambda cluster, deadline: groups.list_groups(cluster, deadline, states, types, broker_ids),
        )

    async def describe_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[GroupDescription]:
        """Return groups with their members. `group_coordinator_id` saves the lookup of the coordinator."""
        return [
            await self._describe_group(group_id, group_coordinator_id, include_authorized_operations)
            for group_id in arguments.texts(group_ids, "group id")
        ]

    async def _describe_group(self, group_id: str, coordinator_id: int | None, operations: bool) -> GroupDescription:
        return await self._run(
            f"describing group {group_id}",
            lambda cluster, deadline: groups.describe_group(
                cluster, group_id, deadline, coordinator_id, operations=operations
            ),
        )

    async def group_lag(self, group_id: str) -> list[PartitionLag]:
        """Return the lag of a group in records, by partition."""
        what = f"reading the lag of group {arguments.group_id(group_id)}"
        return await self._run(what, lambda cluster, _: groups.group_lag(cluster, group_id, self._again(what)))

    async def delete_groups(self, group_ids: Iterable[str], group_coordinator_id: int | None = None) -> None:
        """Delete groups, which must have no members."""
        asked = arguments.texts(group_ids, "group id")
        what = f"deleting group {', '.join(asked)}"
        await self._run(
            what, lambda cluster, _: groups.delete_groups(cluster, asked, self._again(what), group_coordinator_id)
        )

    async def remove_group_members(
        self, group_id: str, members: Iterable[MemberToRemove], group_coordinator_id: int | None = None
    ) -> None:
        """Remove members from a group; each is named by a member_id or, a static one, by its group_instance_id."""
        wanted = arguments.instances(members, MemberToRemove)
        for said in (said for one in wanted for said in one if said is not None):
            arguments.text(said, "what names a member")
        await self._run(
            f"removing members of group {arguments.group_id(group_id)}",
            lambda cluster, deadline: groups.remove_members(cluster, group_id, wanted, deadline, group_coordinator_id),
        )

    def _again(self, what: str) -> Callable[[], Deadline]:
        return lambda: self._deadline(what)

    # -- offsets of groups ---------------------------------------------------------------------------------------------

    async def list_group_offsets(
        self,
        group_specs: str | list[str] | Mapping[str, Iterable[TopicPartition] | None],
        partitions: Iterable[TopicPartition] | None = None,
    ) -> Any:
        """Return the committed offsets of a group, by partition, of these partitions (None: all).

        Offsets that an open transaction will commit are not among them. For a list of groups, or a mapping group →
        partitions (None: all), the result is a dict by group.
        """
        if isinstance(group_specs, list):
            group_specs = dict.fromkeys(arguments.texts(group_specs, "group id"))
        if not isinstance(group_specs, str):
            asked = arguments.mapping(group_specs, "groups").items()
            return {group_id: await self._group_offsets(group_id, some) for group_id, some in asked}
        return await self._group_offsets(group_specs, partitions)

    async def _group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        asked = None if partitions is None else arguments.topic_partitions(partitions)
        return await self._run(
            f"reading the offsets of group {arguments.group_id(group_id)}",
            lambda cluster, deadline: committed_offsets(cluster, group_id, asked, deadline, require_stable=False),
        )

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, Any], group_coordinator_id: int | None = None
    ) -> None:
        """Set the committed offsets of a group, which must have no members."""
        wanted = arguments.offsets_to_commit(offsets)
        await self._run(
            f"setting offsets of group {arguments.group_id(group_id)}",
            lambda cluster, deadline: groups.alter_offsets(cluster, group_id, wanted, deadline, group_coordinator_id),
        )

    async def reset_group_offsets(
        self, group_id: str, offset_specs: Mapping[TopicPartition, int], group_coordinator_id: int | None = None
    ) -> dict[TopicPartition, int]:
        """Set the committed offsets of a group without members, clipped to the logs, and return them.

        A value is an OffsetSpec, an OffsetTimestamp (the log end if it is after the last record), or an offset.
        """
        targets = arguments.by_partition(offset_specs, "offsets")
        for target in targets.values():
            arguments.whole_number(target, "an offset, or an OffsetSpec,", lowest=LOWEST_SPEC)
        what = f"resetting offsets of group {arguments.group_id(group_id)}"
        return await self._run(
            what,
            lambda cluster, _: groups.reset_offsets(
                cluster, group_id, targets, self._again(what), group_coordinator_id
            ),
        )

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], group_coordinator_id: int | None = None
    ) -> None:
        """Delete a group's offsets of partitions whose topics no member subscribes to."""
        wanted = arguments.topic_partitions(partitions)
        await self._run(
            f"deleting offsets of group {arguments.group_id(group_id)}",
            lambda cluster, deadline: groups.delete_offsets(cluster, group_id, wanted, deadline, group_coordinator_id),
        )

    # -- offsets of logs -----------------------------------------------------------------------------------------------

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation_level: int = 0, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return, by partition, the first offset at or after a time (ms since 1970, or an OffsetSpec), else None."""
        asked = {
            tp: arguments.whole_number(time, "a time, or an OffsetSpec,", lowest=LOWEST_SPEC)
            for tp, time in arguments.by_partition(times, "times").items()
        }
        return await self._run(
            "listing offsets",
            lambda cluster, deadline: offsets_at(cluster, asked, isolation_level, deadline),
            timeout_ms,
        )

    async def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, int],
        isolation_level: int = 0,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offsets by OffsetSpec or OffsetTimestamp: `list_offsets` under kafka-python's name."""
        return await self.list_offsets(topic_partition_specs, isolation_level, timeout_ms)

    # -- transactions --------------------------------------------------------------------------------------------------

    async def list_transactions(
        self,
        broker_ids: Collection[int] | None = None,
        producer_id_filters: Iterable[int] | None = None,
        state_filters: Iterable[str] | None = None,
        duration_filter_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> dict[int, list[TransactionListing]]:
        """Return transactions by the id of their coordinator: all, or those that match every filter."""
        producers, states = list(producer_id_filters or ()), arguments.texts(state_filters or (), "state")
        return await self._run(
            "listing transactions",
            lambda cluster, deadline: transactions.list_transactions(
                cluster, deadline, broker_ids, producers, states, duration_filter_ms, transactional_id_pattern
            ),
        )

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return the transaction state of transactional ids. Raises KafkaError (TRANSACTIONAL_ID_NOT_FOUND, …)."""
        asked = arguments.texts(transactional_ids, "transactional id")
        return {name: await self._describe_transaction(name) for name in asked}

    async def _describe_transaction(self, transactional_id: str) -> TransactionDescription:
        return await self._run(
            f"describing transactional.id {transactional_id}",
            lambda cluster, deadline: transactions.describe_transaction(cluster, transactional_id, deadline),
        )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the active producers of partitions, from their leaders or from the replicas on one broker."""
        wanted = arguments.topic_partitions(partitions)
        return await self._run(
            "describing producers",
            lambda cluster, deadline: transactions.describe_producers(cluster, wanted, broker_id, deadline),
        )

    async def find_hanging_transactions(
        self, broker_ids: Collection[int] | None = None, max_transaction_timeout_ms: int = LONGEST_TRANSACTION_MS
    ) -> list[HangingTransaction]:
        """Return the transactions that have been open for five minutes longer than `max_transaction_timeout_ms`, and
        those that are open in a partition and known to no coordinator. The state of the latter is empty, or that of
        their producer's next transaction.

        `broker_ids` limits the first to those of these coordinators, and the second to partitions that these brokers
        lead (None: all). A warning is logged where it cannot be told whether a coordinator knows one.
        """
        what = "looking for hanging transactions"
        return await self._run(
            what,
            lambda cluster, _: hanging_transactions.find_hanging(
                cluster, broker_ids, max_transaction_timeout_ms, self._started().clock.now_ms, self._again(what)
            ),
        )

    async def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """Abort a hanging transaction in one partition; `describe_producers` tells its producer."""
        (asked,) = arguments.instances([spec], AbortTransactionSpec)
        asked = asked._replace(topic_partition=arguments.topic_partition(asked.topic_partition))
        await self._run(
            f"aborting a transaction in {asked.topic_partition}",
            lambda cluster, deadline: transactions.abort_transaction(cluster, asked, deadline),
        )
