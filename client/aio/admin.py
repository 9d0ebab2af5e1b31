"""Admin: topics, configurations, groups, leaders, access, on asyncio."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odradek.client import arguments
from odradek.client.admin import access, brokers, configs, leaders, quotas, tokens
from odradek.client.admin import topics as topic_requests
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
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    FeatureMetadata,
    LogDirectory,
    NewPartitions,
    NewTopic,
    Reassignment,
    TopicPartitionReplica,
)
from odradek.client.aio.admin_groups import GroupsAdmin
from odradek.client.calls import side_by_side
from odradek.client.errors import ConfigError
from odradek.client.metadata import TopicInfo
from odradek.client.records import TopicPartition
from odradek.protocol.errors import KafkaError


class Admin(GroupsAdmin):
    """Client for administration: topics, configurations, groups, leaders, access.

    Every method waits for at most default.api.timeout.ms, or its `timeout_ms`, then raises ClientTimeout; it raises
    KafkaError when the cluster refuses. A method that is given several items tries all of them, then raises the first
    item's error with the reasons of all, or nothing with `raise_errors=False`. Use it as `async
    with Admin(...) as admin`, or `await start()` and `close()`.
    """

    # -- cluster -------------------------------------------------------------------------------------------------------

    async def describe_cluster(self) -> ClusterDescription:
        """Return the brokers, the controller and the cluster id."""
        view, _ = await self._run("describing the cluster", lambda cluster, _: cluster.describe([]))
        nodes = [view.nodes[node_id] for node_id in sorted(view.nodes)]
        return ClusterDescription(view.cluster_id, view.controller_id, nodes)

    async def api_versions(self) -> dict[int, tuple[int, int]]:
        """Return the lowest and highest version of each API key that some broker serves."""
        return await self._run("reading versions", lambda cluster, _: brokers.api_versions(cluster, None))

    async def get_broker_version_data(self, broker_id: int) -> dict[int, tuple[int, int]]:
        """Return the lowest and highest version of each API key that a broker serves."""
        return await self._run("reading versions", lambda cluster, _: brokers.api_versions(cluster, broker_id))

    async def describe_features(self, send_request_to_controller: bool = False) -> FeatureMetadata:
        """Return the features that brokers, or the controller, support, and those that are finalized."""
        return await self._run(
            "describing features",
            lambda cluster, _: brokers.describe_features(cluster, of_controller=send_request_to_controller),
        )

    async def update_features(
        self, feature_updates: Mapping[str, int], validate_only: bool = False, timeout_ms: float | None = None
    ) -> None:
        """Finalize features at these version levels. Raises KafkaError (INVALID_REQUEST) for an unknown one."""
        given = arguments.mapping(feature_updates, "features")
        wanted = {arguments.text(name, "a feature"): level for name, level in given.items()}
        await self._run(
            "updating features",
            lambda cluster, deadline: brokers.update_features(cluster, wanted, deadline, validate_only=validate_only),
            timeout_ms,
        )

    # -- topics --------------------------------------------------------------------------------------------------------

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted; Kafka's internal ones only with `internal`."""
        view, _ = await self._run("listing topics", lambda cluster, _: cluster.describe(None))
        return sorted(name for name, info in view.topics.items() if internal or not info.internal)

    async def describe_topics(self, topics: Iterable[str] | None = None) -> list[TopicInfo]:
        """Return topics (None: all) with their partitions, sorted. Raises KafkaError (UNKNOWN_TOPIC_OR_PARTITION)."""
        asked = None if topics is None else arguments.topic_names(topics)
        view, errors = await self._run("describing topics", lambda cluster, _: cluster.describe(asked))
        missing = [name for name in asked or [] if name in errors and not view.partition_count(name)]
        topic_requests.raise_first((f"topic {name}", errors[name], None) for name in missing)
        return [view.topics[name] for name in sorted(view.topics)]

    async def wait_for_topics(self, topic_names: Iterable[str], timeout_ms: float = 10_000) -> None:
        """Wait until these topics exist and all their partitions have leaders. Raises ClientTimeout."""
        names = arguments.topic_names(topic_names)
        await self._run(
            f"waiting for {', '.join(names)}",
            lambda cluster, deadline: topic_requests.wait_for_topics(cluster, names, deadline),
            timeout_ms,
        )

    async def create_topics(
        self,
        new_topics: Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any]],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> list[CreatedTopic]:
        """Create topics and return those that were created; `wait_for_metadata` waits for their leaders, too.

        A plain name gets the brokers' defaults. A mapping gives for each name any of `num_partitions`,
        `replication_factor`, `assignments` and `configs`.
        """
        wanted = topic_requests.topics_of(new_topics)
        what = f"creating {', '.join(topic.name for topic in wanted)}"
        whole = self._deadline(what, timeout_ms)
        created = await self._run(
            what,
            lambda cluster, deadline: topic_requests.create_topics(
                cluster, wanted, deadline, validate_only=validate_only, raise_errors=raise_errors
            ),
            timeout_ms,
        )
        if wait_for_metadata and not validate_only:
            await self.wait_for_topics([one.name for one in created], whole.left_ms())
        return created

    async def delete_topics(
        self, topics: Iterable[str], timeout_ms: float | None = None, raise_errors: bool = True
    ) -> None:
        """Delete topics and all their records."""
        wanted = arguments.topic_names(topics)
        await self._run(
            f"deleting {', '.join(wanted)}",
            lambda cluster, deadline: topic_requests.delete_topics(
                cluster, wanted, deadline, raise_errors=raise_errors
            ),
            timeout_ms,
        )

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, int | NewPartitions],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> None:
        """Add partitions to topics: topic → total count, or NewPartitions, which can place their replicas."""
        given = arguments.mapping(topic_partitions, "counts")
        counts = {arguments.topic_name(name): count for name, count in given.items()}
        await self._run(
            f"adding partitions to {', '.join(counts)}",
            lambda cluster, deadline: topic_requests.create_partitions(
                cluster, counts, deadline, validate_only=validate_only, raise_errors=raise_errors
            ),
            timeout_ms,
        )

    async def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
        partition_leader_id: int | None = None,
    ) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (-1: the high watermark); return the new log start offsets."""
        wanted = {
            tp: arguments.whole_number(offset, "an offset", lowest=-1)
            for tp, offset in arguments.by_partition(records_to_delete, "offsets").items()
        }
        return await self._run(
            "deleting records",
            lambda cluster, deadline: topic_requests.delete_records(cluster, wanted, partition_leader_id, deadline),
            timeout_ms,
        )

    # -- configurations ------------------------------------------------------------------------------------------------

    async def describe_configs(
        self, config_resources: Iterable[ConfigResource], include_synonyms: bool = False, config_filter: str = "all"
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """Return the settings of topics and brokers: `all` of them, or those that were `modified`."""
        asked = configs.resources(config_resources)
        return await self._run(
            "describing configurations",
            lambda cluster, _: configs.describe_configs(
                cluster, asked, config_filter, include_synonyms=include_synonyms
            ),
        )

    async def alter_configs(
        self,
        config_resources: Mapping[ConfigResource, Sequence[configs.Change]] | Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> None:
        """Change single settings, keep all others: resource → changes, or resources with settings to set.

        With `incremental=False` settings that are not named are reset to their defaults, as before Kafka 2.3. Raises
        ConfigError for a setting that the resource does not have; with `raise_on_unknown=False` the broker decides.
        """
        changes = configs.changes_of(config_resources, configs.Operation.SET)
        await self._alter_configs(changes, validate_only, raise_on_unknown, incremental)

    async def reset_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> None:
        """Reset the settings that each resource names in `configs` to their defaults. See `alter_configs`."""
        changes = configs.changes_of(config_resources, configs.Operation.DELETE)
        if incremental is False:
            raise ConfigError("single settings can only be reset incrementally")
        await self._alter_configs(changes, validate_only, raise_on_unknown, incremental)

    async def _alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[configs.Change]],
        validate_only: bool,
        raise_on_unknown: bool,
        incremental: bool | None,
    ) -> None:
        if raise_on_unknown:
            await self._run("describing configurations", lambda cluster, _: configs.check_known(cluster, changes))
        alter = configs.replace_configs if incremental is False else configs.alter_configs
        await self._run(
            "altering configurations", lambda cluster, _: alter(cluster, changes, validate_only=validate_only)
        )

    # -- leaders and replicas ------------------------------------------------------------------------------------------

    async def elect_leaders(
        self,
        election_type: int | str = leaders.PREFERRED,
        topic_partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> list[TopicPartition]:
        """Elect leaders, PREFERRED or UNCLEAN, of partitions (None: all); return those that have a new one."""
        kind = leaders.election_type(election_type)
        asked = None if topic_partitions is None else arguments.topic_partitions(topic_partitions)
        return await self._run(
            "electing leaders",
            lambda cluster, deadline: leaders.elect_leaders(cluster, kind, asked, deadline, raise_errors=raise_errors),
            timeout_ms,
        )

    async def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: float | None = None
    ) -> None:
        """Start to move partitions to these replicas (broker ids); None cancels a move."""
        wanted = arguments.by_partition(reassignments, "reassignments")
        await self._run(
            "reassigning partitions",
            lambda cluster, deadline: leaders.alter_reassignments(cluster, wanted, deadline),
            timeout_ms,
        )

    async def list_partition_reassignments(
        self, topic_partitions: Iterable[TopicPartition] | None = None, timeout_ms: float | None = None
    ) -> list[Reassignment]:
        """Return the reassignments in progress, of these partitions (None: all)."""
        asked = None if topic_partitions is None else set(arguments.topic_partitions(topic_partitions))
        found = await self._run("listing reassignments", leaders.list_reassignments, timeout_ms)
        return [one for one in found if asked is None or one.topic_partition in asked]

    async def describe_log_dirs(
        self, topic_partitions: Iterable[TopicPartition] | None = None, brokers: Iterable[int] | None = None
    ) -> dict[int, list[LogDirectory]]:
        """Return the log directories of brokers (None: all), with their replicas of these partitions (None: all)."""
        asked = None if topic_partitions is None else set(arguments.topic_partitions(topic_partitions))
        wanted = [node.node_id for node in (await self.describe_cluster()).nodes] if brokers is None else list(brokers)
        described = await side_by_side(self.describe_log_directories(broker) for broker in wanted)
        return {broker: [one.only(asked) for one in some] for broker, some in zip(wanted, described, strict=True)}

    async def describe_log_directories(self, broker: int) -> list[LogDirectory]:
        """Return the log directories of a broker, with the replicas in them."""
        return await self._run(
            "describing log directories", lambda cluster, _: brokers.describe_log_dirs(cluster, broker)
        )

    async def alter_replica_log_dirs(self, replica_assignments: Mapping[TopicPartitionReplica, str]) -> None:
        """Start to move replicas to these log directories of their brokers."""
        by_broker: dict[int, dict[TopicPartition, str]] = {}
        wanted = arguments.mapping(replica_assignments, "directories")
        for replica in arguments.instances(wanted, TopicPartitionReplica):
            place = arguments.topic_partition((replica.topic, replica.partition))
            by_broker.setdefault(replica.broker_id, {})[place] = wanted[replica]
        raised: list[KafkaError] = []
        for broker, targets in by_broker.items():
            try:
                await self.alter_replica_log_directories(broker, targets)
            except KafkaError as error:
                raised.append(error)
        topic_requests.raise_what_failed([], raised)

    async def alter_replica_log_directories(self, broker: int, targets: Mapping[TopicPartition, str]) -> None:
        """Start to move replicas to these log directories of the broker that holds them."""
        given = arguments.by_partition(targets, "directories")
        wanted = {tp: arguments.text(path, "the path of a directory") for tp, path in given.items()}
        await self._run("moving replicas", lambda cluster, _: brokers.alter_replica_log_dirs(cluster, broker, wanted))

    # -- access, tokens, quotas ----------------------------------------------------------------------------------------

    async def create_acls(self, acls: Iterable[ACL]) -> None:
        """Create access control entries. Raises KafkaError (SECURITY_DISABLED without an authorizer, …)."""
        wanted = access.entries(acls)
        await self._run("creating ACLs", lambda cluster, deadline: access.create_acls(cluster, wanted, deadline))

    async def describe_acls(self, acl_filter: ACL) -> list[ACL]:
        """Return the access control entries that match a filter."""
        (asked,) = access.filters([acl_filter])
        return await self._run("describing ACLs", lambda cluster, _: access.describe_acls(cluster, asked))

    async def delete_acls(self, acl_filters: Iterable[ACL]) -> list[ACL]:
        """Delete the access control entries that match any of the filters, and return them."""
        wanted = access.filters(acl_filters)
        return await self._run("deleting ACLs", lambda cluster, deadline: access.delete_acls(cluster, wanted, deadline))

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[ScramMechanism, int]]:
        """Return the SCRAM mechanisms of users (None: all users that have any), each with its iterations."""
        asked = None if users is None else arguments.texts(users, "user")
        return await self._run("describing credentials", lambda cluster, _: access.describe_scram(cluster, asked))

    async def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialDeletion | UserScramCredentialUpsertion]
    ) -> None:
        """Set and delete SCRAM credentials; passwords are salted here and never sent."""
        wanted = access.scram_alterations(alterations)
        await self._run("altering credentials", lambda cluster, deadline: access.alter_scram(cluster, wanted, deadline))

    async def create_delegation_token(
        self, renewers: Iterable[str] = (), owner: str | None = None, max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Create a delegation token for an owner (None: oneself), which `renewers` may renew, too.

        Principals are written `User:alice`. Raises KafkaError (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, …).
        """
        wanted = arguments.texts(renewers, "principal")
        owner = None if owner is None else arguments.text(owner, "a principal")
        return await self._run(
            "creating a token", lambda cluster, _: tokens.create(cluster, wanted, owner, max_lifetime_ms)
        )

    async def renew_delegation_token(self, hmac: bytes, renew_period_ms: int = -1) -> int:
        """Renew a token for `renew_period_ms` (-1: the brokers' default); return when it expires, in ms since 1970."""
        secret = arguments.octets(hmac, "the hmac of a token")
        return await self._run("renewing a token", lambda cluster, _: tokens.renew(cluster, secret, renew_period_ms))

    async def expire_delegation_token(self, hmac: bytes, expiry_time_period_ms: int = -1) -> int:
        """Set a token to expire after `expiry_time_period_ms` (-1: delete it now); return when, in ms since 1970."""
        secret = arguments.octets(hmac, "the hmac of a token")
        return await self._run(
            "expiring a token", lambda cluster, _: tokens.expire(cluster, secret, expiry_time_period_ms)
        )

    async def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return the tokens of these owners (None: all) that the caller may see."""
        asked = None if owners is None else arguments.texts(owners, "principal")
        return await self._run("describing tokens", lambda cluster, _: tokens.describe(cluster, asked))

    async def describe_client_quotas(
        self, entity_filter: Mapping[str, str | QuotaMatch | None] | None = None, strict: bool = False
    ) -> list[ClientQuota]:
        """Return quotas. The filter: entity type (`user`, `client-id`, `ip`) → a name, None (the default) or ANY.

        Entities that have other types as well match, too, unless `strict`.
        """
        wanted = dict(arguments.mapping(entity_filter or {}, "entities"))
        for kind, name in wanted.items():
            arguments.text(kind, "the type of an entity")
            if name is not None and not isinstance(name, QuotaMatch):
                arguments.text(name, "the name of an entity")
        return await self._run("describing quotas", lambda cluster, _: quotas.describe(cluster, wanted, strict=strict))

    async def alter_client_quotas(
        self, alterations: Iterable[ClientQuotaAlteration], validate_only: bool = False
    ) -> None:
        """Set the quotas of entities; None removes one."""
        wanted = quotas.alterations(alterations)
        await self._run(
            "altering quotas",
            lambda cluster, deadline: quotas.alter(cluster, wanted, deadline, validate_only=validate_only),
        )
