"""The admin client's part of the contract: topics, partitions, groups, transactions; settings,
versions, access, tokens, quotas."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from odradek.client.admin import configs
from odradek.client.admin.access_values import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourceType,
    ClientQuotaAlteration,
    ResourcePattern,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from odradek.client.admin.values import (
    AbortTransactionSpec,
    ConfigResource,
    ConfigSource,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    OffsetTimestamp,
    ResourceType,
    TopicPartitionReplica,
)
from odradek.client.errors import (
    ClientTimeout,
    ConfigError,
)
from odradek.client.records import OffsetAndMetadata, TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.client_contract.worlds import LONG_MS, ContractWorld, raises, read


async def check_topics_of_admin(world: ContractWorld) -> None:
    topic = await world.topic(partitions=1)
    admin = await world.admin()
    cluster = await admin.describe_cluster()
    assert cluster.controller_id in {node.node_id for node in cluster.nodes} and cluster.cluster_id
    await world.until(lambda: _listed(admin, topic), "the new topic in the list")
    error = await raises(KafkaError, lambda: admin.create_topics([NewTopic(topic, 1, 1)]))
    assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    await admin.create_partitions({topic: 3})

    async def grown() -> bool:
        (described,) = await admin.describe_topics([topic])
        return len(described.partitions) == 3

    await world.until(grown, "three partitions")
    await raises(KafkaError, lambda: admin.describe_topics([f"{topic}-not"]))
    await admin.delete_topics([topic])

    async def gone() -> bool:
        return topic not in await admin.list_topics()

    await world.until(gone, "the topic is deleted")
    await raises(TypeError, lambda: admin.delete_topics([5]))


async def _listed(admin: Any, topic: str) -> bool:
    return topic in await admin.list_topics()


async def check_configurations(world: ContractWorld) -> None:
    topic, other = await world.topic(), await world.topic(suffix="-other")
    admin = await world.admin()
    resource, next_one = ConfigResource(ResourceType.TOPIC, topic), ConfigResource(ResourceType.TOPIC, other)
    right, wrong = [("retention.ms", configs.Operation.SET, text) for text in ("12345", "soon")]
    await admin.alter_configs({resource: [right]})

    async def altered(one: ConfigResource) -> bool:
        entries = (await admin.describe_configs([one]))[one]
        return bool({entry.name: entry.value for entry in entries}.get("retention.ms") == "12345")

    await world.until(lambda: altered(resource), "the new retention.ms")
    await raises(KafkaError, lambda: admin.alter_configs({resource: [wrong], next_one: [right]}))
    await world.until(lambda: altered(next_one), "the retention.ms of the one that was given after a refused one")


async def check_groups_of_admin(world: ContractWorld) -> None:
    topic = await world.topic(values=5)
    group, where = topic, TopicPartition(topic, 0)
    admin = await world.admin()
    consumer = await world.consumer(group_id=group, enable_auto_commit=False)
    consumer.subscribe([topic])
    assert len(await read(consumer, 5)) == 5
    await consumer.commit({where: 2})
    assert group in {one.group_id for one in await admin.list_groups()}
    (described,) = await admin.describe_groups([group])
    assert (described.state, [member.partitions for member in described.members]) == ("Stable", [(where,)])
    (lag,) = await admin.group_lag(group)
    assert (lag.committed, lag.log_end_offset, lag.lag) == (2, 5, 3)
    assert (await admin.list_group_offsets(group))[where].offset == 2
    await raises(KafkaError, lambda: admin.delete_groups([group]))
    await consumer.close()
    await admin.alter_group_offsets(group, {where: OffsetAndMetadata(4)})
    assert (await admin.list_group_offsets(group, [where]))[where].offset == 4
    await admin.delete_groups([group])
    assert group not in {one.group_id for one in await admin.list_groups()}
    assert (await admin.list_offsets({where: -1}))[where].offset == 5


async def check_replicas_of_admin(world: ContractWorld) -> None:
    topic = await world.topic(values=1)
    where = TopicPartition(topic, 0)
    admin = await world.admin()
    (described,) = await admin.describe_topics([topic])
    (leader,) = described.partitions[0].replicas
    assert await admin.elect_leaders("PREFERRED", [where]) == []
    directories = await admin.describe_log_directories(leader)
    assert where in {replica.topic_partition for one in directories for replica in one.replicas}
    nowhere = {where: "/no/such/directory"}
    error = await raises(KafkaError, lambda: admin.alter_replica_log_directories(leader, nowhere))
    assert error.code is ErrorCode.LOG_DIR_NOT_FOUND
    assert await admin.list_partition_reassignments() == []
    error = await raises(KafkaError, lambda: admin.alter_partition_reassignments({where: [12_345]}))
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def check_topics_are_waited_for(world: ContractWorld) -> None:
    admin = await world.admin()
    name = f"{world.name}-waited"
    (created,) = await admin.create_topics([NewTopic(name, 1, 1)], LONG_MS, wait_for_metadata=True)
    assert created.name == name
    assert await admin.create_topics([NewTopic(name, 1, 1)], raise_errors=False) == []
    options = {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
    for given in ([f"{name}-1"], {f"{name}-2": options, f"{name}-3": {}}):  # as kafka-python takes them
        assert {one.name for one in await admin.create_topics(given, LONG_MS)} == set(given)
    error = await raises(KafkaError, lambda: admin.create_partitions({f"{name}-2": 2}))
    assert error.code is ErrorCode.INVALID_PARTITIONS, "it has two"
    await admin.create_partitions({name: NewPartitions(2)}, timeout_ms=LONG_MS)
    await admin.create_partitions({name: 1}, raise_errors=False)
    await raises(ClientTimeout, lambda: admin.wait_for_topics([f"{name}-not"], 300))
    await admin.delete_topics([f"{name}-not"], raise_errors=False)
    measured = admin.metrics()["admin-client-metrics"]
    assert measured["connection-count"] > 0 and measured["connection-creation-total"] > 0


async def check_records_are_deleted(world: ContractWorld) -> None:
    topic = await world.topic(values=5)
    where = TopicPartition(topic, 0)
    admin = await world.admin()
    assert await admin.delete_records({where: 3}) == {where: 3}
    assert (await admin.list_partition_offsets({where: OffsetSpec.EARLIEST}))[where].offset == 3
    error = await raises(KafkaError, lambda: admin.delete_records({where: 9}))
    assert error.code is ErrorCode.OFFSET_OUT_OF_RANGE
    (leader,) = (await admin.describe_topics([topic]))[0].partitions
    assert await admin.delete_records({where: -1}, LONG_MS, leader.leader) == {where: 5}
    await raises(TypeError, lambda: admin.delete_records({where: "3"}))


async def check_offsets_of_groups(world: ContractWorld) -> None:
    topic = await world.topic(partitions=2, values=5)
    where, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin = await world.admin()
    await world.until(partial(_altered, admin, topic, {where: 2, other: 0}), "offsets of a new group")
    assert (await admin.list_group_offsets({topic: [where]}))[topic][where].offset == 2
    assert (await admin.list_group_offsets([topic]))[topic][where].offset == 2
    targets = {where: OffsetSpec.LATEST, other: 7}
    assert await admin.reset_group_offsets(topic, targets) == {where: 5, other: 0}
    assert await admin.reset_group_offsets(topic, {where: OffsetTimestamp(0)}) == {where: 0}
    await admin.delete_group_offsets(topic, [other])
    assert set(await admin.list_group_offsets(topic)) == {where}
    consumer = await world.consumer(group_id=topic, group_instance_id="static")
    consumer.subscribe([topic])
    assert len(await read(consumer, 5)) == 5
    error = await raises(KafkaError, lambda: admin.delete_group_offsets(topic, [where]))
    assert error.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    (described,) = await admin.describe_groups([topic], include_authorized_operations=True)
    assert described.authorized_operations and ACLOperation.READ in described.authorized_operations
    assert topic in {one.group_id for one in await admin.list_groups([described.coordinator], ["Stable"])}
    assert topic not in {one.group_id for one in await admin.list_groups(states_filter=["Empty"])}
    await consumer.close()
    assert len((await admin.describe_groups([topic], described.coordinator))[0].members) == 1, "it keeps its place"
    await admin.remove_group_members(topic, [MemberToRemove(group_instance_id="static", reason="a test")])
    assert (await admin.describe_groups([topic]))[0].members == []
    await raises(KafkaError, lambda: admin.remove_group_members(topic, [MemberToRemove("nobody")]))


async def _altered(admin: Any, group: str, offsets: Any) -> bool:
    """Alter a group's offsets; False while its coordinator refuses: it may be about to take its first group."""
    try:
        await admin.alter_group_offsets(group, offsets)
    except KafkaError as error:
        assert error.retriable
        return False
    return True


async def check_transactions_of_admin(world: ContractWorld) -> None:
    topic = await world.topic(values=1)
    where = TopicPartition(topic, 0)
    admin = await world.admin()
    producer = await world.producer(transactional_id=topic)
    await producer.init_transactions()
    await producer.begin_transaction()
    await (await producer.send(topic, b"open", partition=0))
    described = (await admin.describe_transactions([topic]))[topic]
    assert described.state == "Ongoing" and described.topic_partitions == {where}
    assert described.producer_id >= 0 and described.transaction_start_time_ms > 0
    listed = await admin.list_transactions(state_filters=["Ongoing"], transactional_id_pattern=topic)
    assert [one.producer_id for one in listed[described.coordinator_id]] == [described.producer_id]
    assert await admin.find_hanging_transactions() == []
    open_ones = [
        one for one in (await admin.describe_producers([where]))[where] if one.current_transaction_start_offset >= 0
    ]
    assert [(one.producer_id, one.current_transaction_start_offset) for one in open_ones] == [
        (described.producer_id, 1)
    ]
    consumer = await world.consumer(isolation_level="read_committed")
    assert await consumer.end_offsets([where]) == {where: 1}
    await admin.abort_transaction(AbortTransactionSpec(where, open_ones[0].producer_id, open_ones[0].producer_epoch))

    async def released() -> bool:
        return bool(await consumer.end_offsets([where]) == {where: 3})

    await world.until(released, "the end of the transaction")
    error = await raises(KafkaError, lambda: admin.describe_transactions([f"{topic}-not"]))
    assert error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def check_settings_by_resource(world: ContractWorld) -> None:
    topic = await world.topic()
    admin = await world.admin()
    await admin.alter_configs([ConfigResource("topic", topic, {"retention.ms": "777", "segment.ms": "888"})])
    plain = ConfigResource(ResourceType.TOPIC, topic)

    async def modified() -> dict[str, str]:
        entries = (await admin.describe_configs([plain], config_filter="modified"))[plain]
        return {one.name: one.value for one in entries if one.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}

    async def there() -> bool:
        return await modified() == {"retention.ms": "777", "segment.ms": "888"}

    async def gone() -> bool:
        return await modified() == {"segment.ms": "888"}

    await world.until(there, "both settings")
    await admin.reset_configs([ConfigResource("topic", topic, ["retention.ms"])])
    await world.until(gone, "the default again")
    await raises(ConfigError, lambda: admin.alter_configs([plain]))
    await raises(ConfigError, lambda: admin.alter_configs([ConfigResource("topic", topic, {"retention": "1"})]))
    await admin.alter_configs([ConfigResource("topic", topic, {"retention.ms": "99"})], incremental=False)

    async def replaced() -> bool:
        return await modified() == {"retention.ms": "99"}

    await world.until(replaced, "nothing but what was named")
    (entry,) = (
        one
        for one in (await admin.describe_configs([plain], include_synonyms=True))[plain]
        if one.name == "retention.ms"
    )
    assert entry.synonyms[0] == ("retention.ms", "99", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    await raises(ConfigError, lambda: admin.describe_configs([plain], config_filter="some"))


async def check_what_brokers_serve(world: ContractWorld) -> None:
    topic = await world.topic()
    where = TopicPartition(topic, 0)
    admin = await world.admin()
    (leader,) = (await admin.describe_topics([topic]))[0].partitions[0].replicas
    assert 18 in await admin.api_versions() and (await admin.get_broker_version_data(leader))[1][1] >= 11
    finalized = (await admin.describe_features(send_request_to_controller=True)).finalized_features
    assert ("metadata.version" in finalized) == world.kraft
    await raises(KafkaError, lambda: admin.update_features({"metadata.version": 1}))
    directories = (await admin.describe_log_dirs([where], [leader]))[leader]
    assert [one.topic_partition for directory in directories for one in directory.replicas] == [where]
    nowhere = {TopicPartitionReplica(topic, 0, leader): "/no/such/directory"}
    error = await raises(KafkaError, lambda: admin.alter_replica_log_dirs(nowhere))
    assert error.code is ErrorCode.LOG_DIR_NOT_FOUND


async def check_access_without_an_authorizer(world: ContractWorld) -> None:
    admin = await world.admin()
    pattern = ResourcePattern(ACLResourceType.TOPIC, "t")
    entry = ACL("User:me", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
    for call in (
        lambda: admin.create_acls([entry]),
        lambda: admin.describe_acls(entry),
        lambda: admin.delete_acls([entry]),
    ):
        error = await raises(KafkaError, call)
        assert error.code is ErrorCode.SECURITY_DISABLED
    await raises(KafkaError, lambda: admin.describe_user_scram_credentials([f"{world.name}-nobody"]))
    deletion = UserScramCredentialDeletion(f"{world.name}-nobody", ScramMechanism.SCRAM_SHA_256)
    await raises(KafkaError, lambda: admin.alter_user_scram_credentials([deletion]))


async def check_tokens_where_nobody_is_known(world: ContractWorld) -> None:
    admin = await world.admin()
    for call in (
        lambda: admin.create_delegation_token(["User:me"]),
        lambda: admin.renew_delegation_token(b"hmac"),
        lambda: admin.expire_delegation_token(b"hmac"),
        admin.describe_delegation_token,
    ):
        await raises(KafkaError, call)


async def check_client_quotas(world: ContractWorld) -> None:
    admin = await world.admin()
    entity = {"client-id": world.name}

    async def described(limits: Mapping[str, float]) -> bool:
        return [one.quotas for one in await admin.describe_client_quotas(entity)] == ([limits] if limits else [])

    await admin.alter_client_quotas([ClientQuotaAlteration(entity, {"producer_byte_rate": 1e6})])
    await world.until(lambda: described({"producer_byte_rate": 1e6}), "the quota")
    await admin.alter_client_quotas([ClientQuotaAlteration(entity, {"producer_byte_rate": None})])
    await world.until(lambda: described({}), "its end")
