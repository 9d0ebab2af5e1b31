"""The admin client's part of the contract: settings, versions, access, tokens, quotas."""

from collections.abc import Mapping

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
from odradek.client.admin.values import ConfigResource, ConfigSource, ResourceType, TopicPartitionReplica
from odradek.client.errors import (
    ConfigError,
)
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.testing.client_contract.worlds import ContractWorld, raises


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
