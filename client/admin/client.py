"""KafkaAdminClient: the blocking form of the administrative client."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from odradek.client.admin import configs, leaders
from odradek.client.admin.access_values import (
    ACL,
    ClientQuota,
    ClientQuotaAlteration,
    DelegationToken,
    QuotaMatch,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from odradek.client.admin.values import (
    AbortTransactionSpec,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    FeatureMetadata,
    GroupDescription,
    GroupListing,
    HangingTransaction,
    LogDirectory,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    PartitionLag,
    ProducerState,
    Reassignment,
    TopicPartitionReplica,
    TransactionDescription,
    TransactionListing,
)
from odradek.client.aio.admin import Admin
from odradek.client.aio.admin_groups import LONGEST_TRANSACTION_MS
from odradek.client.blocking import Blocking
from odradek.client.config import AdminConfig, defaults
from odradek.client.metadata import TopicInfo
from odradek.client.records import OffsetAndTimestamp, TopicPartition


class KafkaAdminClient(Blocking[Admin]):
    """Client for administration: topics, configurations, groups, leaders, access. Thread-safe.

    Methods are those of `odradek.aio.Admin`, with the names and parameters of kafka-python's class of this name. Each
    blocks for at most default.api.timeout.ms, or its `timeout_ms`, then raises ClientTimeout; it raises KafkaError when
    the cluster refuses. A method that is given several items tries all of them, then raises the first item's error with
    the reasons of all, or nothing with `raise_errors=False`.
    """

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = defaults(AdminConfig)
    """Settings and their defaults."""

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Take settings: Kafka's admin client configs, as a mapping with Kafka's names or as snake_case keywords.

        Raises ConfigError.
        """
        core = Admin(config, **settings)
        self.config = core.config
        self._begin(core, self.config.client_id)

    # -- cluster -------------------------------------------------------------------------------------------------------

    def describe_cluster(self) -> ClusterDescription:
        """Return the brokers, the controller and the cluster id."""
        return self._run(self._core.describe_cluster())

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """Return the lowest and highest version of each API key that some broker serves."""
        return self._run(self._core.api_versions())

    def get_broker_version_data(self, broker_id: int) -> dict[int, tuple[int, int]]:
        """Return the lowest and highest version of each API key that a broker serves."""
        return self._run(self._core.get_broker_version_data(broker_id))

    def describe_features(self, send_request_to_controller: bool = False) -> FeatureMetadata:
        """Return the features that brokers, or the controller, support, and those that are finalized."""
        return self._run(self._core.describe_features(send_request_to_controller))

    def update_features(
        self, feature_updates: Mapping[str, int], validate_only: bool = False, timeout_ms: float | None = None
    ) -> None:
        """Finalize features at these version levels. Raises KafkaError (INVALID_REQUEST) for an unknown one."""
        self._run(self._core.update_features(feature_updates, validate_only, timeout_ms))

    # -- topics --------------------------------------------------------------------------------------------------------

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; Kafka's internal ones only with `internal`."""
        return self._run(self._core.list_topics(internal=internal))

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[TopicInfo]:
        """Return topics (None: all) with their partitions, sorted. Raises KafkaError (UNKNOWN_TOPIC_OR_PARTITION)."""
        return self._run(self._core.describe_topics(topics))

    def wait_for_topics(self, topic_names: Iterable[str], timeout_ms: float = 10_000) -> None:
        """Wait until these topics exist and all their partitions have leaders. Raises ClientTimeout."""
        self._run(self._core.wait_for_topics(topic_names, timeout_ms))

    def create_topics(
        self,
        new_topics: Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any]],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> list[CreatedTopic]:
        """Create topics and return those that were created; `wait_for_metadata` waits for their leaders, too.

        Plain names, and mappings of options by name, are accepted as by `aio.Admin.create_topics`.
        """
        return self._run(
            self._core.create_topics(new_topics, timeout_ms, validate_only, raise_errors, wait_for_metadata)
        )

    def delete_topics(self, topics: Iterable[str], timeout_ms: float | None = None, raise_errors: bool = True) -> None:
        """Delete topics and all their records."""
        self._run(self._core.delete_topics(topics, timeout_ms, raise_errors))

    def create_partitions(
        self,
        topic_partitions: Mapping[str, int | NewPartitions],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> None:
        """Add partitions to topics: topic → total count, or NewPartitions, which can place their replicas."""
        self._run(self._core.create_partitions(topic_partitions, timeout_ms, validate_only, raise_errors))

    def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
        partition_leader_id: int | None = None,
    ) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (-1: the high watermark); return the new log start offsets."""
        return self._run(self._core.delete_records(records_to_delete, timeout_ms, partition_leader_id))

    # -- configurations ------------------------------------------------------------------------------------------------

    def describe_configs(
        self, config_resources: Iterable[ConfigResource], include_synonyms: bool = False, config_filter: str = "all"
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """Return the settings of topics and brokers: `all` of them, or those that were `modified`."""
        return self._run(self._core.describe_configs(config_resources, include_synonyms, config_filter))

    def alter_configs(
        self,
        config_resources: Mapping[ConfigResource, Sequence[configs.Change]] | Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> None:
        """Change single settings and keep all others. See `aio.Admin.alter_configs`."""
        self._run(self._core.alter_configs(config_resources, validate_only, raise_on_unknown, incremental))

    def reset_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> None:
        """Reset the settings that each resource names in `configs` to their defaults."""
        self._run(self._core.reset_configs(config_resources, validate_only, raise_on_unknown, incremental))

    # -- leaders and replicas ------------------------------------------------------------------------------------------

    def elect_leaders(
        self,
        election_type: int | str = leaders.PREFERRED,
        topic_partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> list[TopicPartition]:
        """Elect leaders, PREFERRED or UNCLEAN, of partitions (None: all); return those that have a new one."""
        return self._run(self._core.elect_leaders(election_type, topic_partitions, timeout_ms, raise_errors))

    def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: float | None = None
    ) -> None:
        """Start to move partitions to these replicas (broker ids); None cancels a move."""
        self._run(self._core.alter_partition_reassignments(reassignments, timeout_ms))

    def list_partition_reassignments(
        self, topic_partitions: Iterable[TopicPartition] | None = None, timeout_ms: float | None = None
    ) -> list[Reassignment]:
        """Return the reassignments in progress, of these partitions (None: all)."""
        return self._run(self._core.list_partition_reassignments(topic_partitions, timeout_ms))

    def describe_log_dirs(
        self, topic_partitions: Iterable[TopicPartition] | None = None, brokers: Iterable[int] | None = None
    ) -> dict[int, list[LogDirectory]]:
        """Return the log directories of brokers (None: all), with their replicas of these partitions (None: all)."""
        return self._run(self._core.describe_log_dirs(topic_partitions, brokers))

    def describe_log_directories(self, broker: int) -> list[LogDirectory]:
        """Return the log directories of a broker, with the replicas in them."""
        return self._run(self._core.describe_log_directories(broker))

    def alter_replica_log_dirs(self, replica_assignments: Mapping[TopicPartitionReplica, str]) -> None:
        """Start to move replicas to these log directories of their brokers."""
        self._run(self._core.alter_replica_log_dirs(replica_assignments))

    def alter_replica_log_directories(self, broker: int, targets: Mapping[TopicPartition, str]) -> None:
        """Start to move replicas to these log directories of the broker that holds them."""
        self._run(self._core.alter_replica_log_directories(broker, targets))

    # -- access --------------------------------------------------------------------------------------------------------

    def create_acls(self, acls: Iterable[ACL]) -> None:
        """Create access control entries. Raises KafkaError (SECURITY_DISABLED without an authorizer, …)."""
        self._run(self._core.create_acls(acls))

    def describe_acls(self, acl_filter: ACL) -> list[ACL]:
        """Return the access control entries that match a filter."""
        return self._run(self._core.describe_acls(acl_filter))

    def delete_acls(self, acl_filters: Iterable[ACL]) -> list[ACL]:
        """Delete the access control entries that match any of the filters, and return them."""
        return self._run(self._core.delete_acls(acl_filters))

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[ScramMechanism, int]]:
        """Return the SCRAM mechanisms of users (None: all users that have any), each with its iterations."""
        return self._run(self._core.describe_user_scram_credentials(users))

    def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialDeletion | UserScramCredentialUpsertion]
    ) -> None:
        """Set and delete SCRAM credentials. Passwords are salted and hashed in the client, and never sent."""
        self._run(self._core.alter_user_scram_credentials(alterations))

    # -- groups --------------------------------------------------------------------------------------------------------

    def list_groups(
        self,
        broker_ids: Iterable[int] | None = None,
        states_filter: Sequence[str] | None = None,
        types_filter: Sequence[str] | None = None,
    ) -> list[GroupListing]:
        """Return all groups, or those of these brokers, states (Stable, Empty, …) and types (classic, …)."""
        return self._run(self._core.list_groups(broker_ids, states_filter, types_filter))

    def describe_groups(
        self,
        group_ids: Iterable[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[GroupDescription]:
        """Return groups with their members. `group_coordinator_id` saves the lookup of the coordinator."""
        return self._run(self._core.describe_groups(group_ids, group_coordinator_id, include_authorized_operations))

    def group_lag(self, group_id: str) -> list[PartitionLag]:
        """Return the lag of a group in records, by partition."""
        return self._run(self._core.group_lag(group_id))

    def delete_groups(self, group_ids: Iterable[str], group_coordinator_id: int | None = None) -> None:
        """Delete groups, which must have no members."""
        self._run(self._core.delete_groups(group_ids, group_coordinator_id))

    def remove_group_members(
        self, group_id: str, members: Iterable[MemberToRemove], group_coordinator_id: int | None = None
    ) -> None:
        """Remove members from a group; each is named by a member_id or, a static one, by its group_instance_id."""
        self._run(self._core.remove_group_members(group_id, members, group_coordinator_id))

    # -- offsets of groups ---------------------------------------------------------------------------------------------

    def list_group_offsets(
        self,
        group_specs: str | list[str] | Mapping[str, Iterable[TopicPartition] | None],
        partitions: Iterable[TopicPartition] | None = None,
    ) -> Any:
        """Return the committed offsets of a group, by partition, of these partitions (None: all).

        For a list of groups, or a mapping group → partitions (None: all), the result is a dict by group.
        """
        return self._run(self._core.list_group_offsets(group_specs, partitions))

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, Any], group_coordinator_id: int | None = None
    ) -> None:
        """Set the committed offsets of a group, which must have no members."""
        self._run(self._core.alter_group_offsets(group_id, offsets, group_coordinator_id))

    def reset_group_offsets(
        self, group_id: str, offset_specs: Mapping[TopicPartition, int], group_coordinator_id: int | None = None
    ) -> dict[TopicPartition, int]:
        """Set the committed offsets of a group without members, clipped to the logs, and return them.

        A value is an OffsetSpec, an OffsetTimestamp (the log end if it is after the last record), or an offset.
        """
        return self._run(self._core.reset_group_offsets(group_id, offset_specs, group_coordinator_id))

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], group_coordinator_id: int | None = None
    ) -> None:
        """Delete a group's offsets of partitions whose topics no member subscribes to."""
        self._run(self._core.delete_group_offsets(group_id, partitions, group_coordinator_id))

    # -- offsets of logs -----------------------------------------------------------------------------------------------

    def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation_level: int = 0, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return, by partition, the first offset at or after a time (ms since 1970, or an OffsetSpec), else None."""
        return self._run(self._core.list_offsets(times, isolation_level, timeout_ms))

    def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, int],
        isolation_level: int = 0,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offsets by OffsetSpec or OffsetTimestamp: `list_offsets` under kafka-python's name."""
        return self._run(self._core.list_partition_offsets(topic_partition_specs, isolation_level, timeout_ms))

    # -- transactions --------------------------------------------------------------------------------------------------

    def list_transactions(
        self,
        broker_ids: Collection[int] | None = None,
        producer_id_filters: Iterable[int] | None = None,
        state_filters: Iterable[str] | None = None,
        duration_filter_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> dict[int, list[TransactionListing]]:
        """Return transactions by the id of their coordinator: all, or those that match every filter."""
        return self._run(
            self._core.list_transactions(
                broker_ids, producer_id_filters, state_filters, duration_filter_ms, transactional_id_pattern
            )
        )

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return the transaction state of transactional ids. Raises KafkaError (TRANSACTIONAL_ID_NOT_FOUND, …)."""
        return self._run(self._core.describe_transactions(transactional_ids))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the active producers of partitions, from their leaders or from the replicas on one broker."""
        return self._run(self._core.describe_producers(partitions, broker_id))

    def find_hanging_transactions(
        self, broker_ids: Collection[int] | None = None, max_transaction_timeout_ms: int = LONGEST_TRANSACTION_MS
    ) -> list[HangingTransaction]:
        """Return the transactions that are open for too long, and those that no coordinator knows. See
        `aio.Admin.find_hanging_transactions`."""
        return self._run(self._core.find_hanging_transactions(broker_ids, max_transaction_timeout_ms))

    def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """Abort a hanging transaction in one partition; `describe_producers` tells its producer."""
        self._run(self._core.abort_transaction(spec))

    # -- tokens and quotas ---------------------------------------------------------------------------------------------

    def create_delegation_token(
        self, renewers: Iterable[str] = (), owner: str | None = None, max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Create a delegation token for an owner (None: oneself), which `renewers` may renew, too."""
        return self._run(self._core.create_delegation_token(renewers, owner, max_lifetime_ms))

    def renew_delegation_token(self, hmac: bytes, renew_period_ms: int = -1) -> int:
        """Renew a token for `renew_period_ms` (-1: the brokers' default); return when it expires, in ms since 1970."""
        return self._run(self._core.renew_delegation_token(hmac, renew_period_ms))

    def expire_delegation_token(self, hmac: bytes, expiry_time_period_ms: int = -1) -> int:
        """Set a token to expire after `expiry_time_period_ms` (-1: delete it now); return when, in ms since 1970."""
        return self._run(self._core.expire_delegation_token(hmac, expiry_time_period_ms))

    def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return the tokens of these owners (None: all) that the caller may see."""
        return self._run(self._core.describe_delegation_token(owners))

    def describe_client_quotas(
        self, entity_filter: Mapping[str, str | QuotaMatch | None] | None = None, strict: bool = False
    ) -> list[ClientQuota]:
        """Return quotas. The filter: entity type (`user`, `client-id`, `ip`) → a name, None (the default) or ANY."""
        return self._run(self._core.describe_client_quotas(entity_filter, strict))

    def alter_client_quotas(self, alterations: Iterable[ClientQuotaAlteration], validate_only: bool = False) -> None:
        """Set the quotas of entities; None removes one."""
        self._run(self._core.alter_client_quotas(alterations, validate_only))

    # -- the rest ------------------------------------------------------------------------------------------------------

    def metrics(self, raw: bool = False) -> Any:
        """Return the metrics under Kafka's names: group → name → value."""
        return self._core.metrics(raw)
