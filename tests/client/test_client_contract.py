"""The contract of the public clients on the virtual clock, and that it leaves no method out."""

import inspect

import pytest

from odradek.client import connection
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.headers import API_NAMES
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.testing.client_contract import CHECKS, FACES, PARTS, RENAMED, ContractWorld, worlds
from odradek.testing.embedded import EmbeddedCluster
from odradek.testing.virtual_clock import VirtualClock, run_virtual

KAFKA_1_0 = {
    "Produce": 5, "Fetch": 6, "ListOffsets": 2, "Metadata": 5, "OffsetCommit": 3, "OffsetFetch": 3,
    "FindCoordinator": 1, "JoinGroup": 2, "Heartbeat": 1, "LeaveGroup": 1, "SyncGroup": 1, "DescribeGroups": 1,
    "ListGroups": 1, "SaslHandshake": 1, "ApiVersions": 1, "CreateTopics": 2, "DeleteTopics": 1, "DeleteRecords": 0,
    "InitProducerId": 0, "OffsetForLeaderEpoch": 0, "AddPartitionsToTxn": 0, "AddOffsetsToTxn": 0, "EndTxn": 0,
    "WriteTxnMarkers": 0, "TxnOffsetCommit": 0, "DescribeAcls": 0, "CreateAcls": 0, "DeleteAcls": 0,
    "DescribeConfigs": 0, "AlterConfigs": 0, "AlterReplicaLogDirs": 0, "DescribeLogDirs": 0, "SaslAuthenticate": 0,
    "CreatePartitions": 0,
}  # fmt: skip
"""Highest version of each API of Kafka 1.0."""


def highest_of_kafka_1_0(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    served = {one.api_key: KAFKA_1_0.get(API_NAMES[one.api_key], -1) for one in answer.api_keys}
    return {one.api_key: (one.min_version, served[one.api_key]) for one in answer.api_keys if served[one.api_key] >= 0}


@pytest.mark.parametrize("name", CHECKS)
def test_on_the_virtual_clock(name: str) -> None:
    carry_out(name)


@pytest.mark.parametrize("name", CHECKS)
def test_with_the_versions_of_kafka_1_0(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each method does the same, or says that the broker is too old for it."""
    monkeypatch.setattr(connection, "ranges_of", highest_of_kafka_1_0)
    try:
        carry_out(name)
    except KafkaError as error:
        assert error.code is ErrorCode.UNSUPPORTED_VERSION, error


def carry_out(name: str) -> None:
    async def main(clock: VirtualClock) -> None:
        overrides = {"transaction.state.log.num.partitions": "2", "transaction.state.log.replication.factor": "1"}
        async with (
            EmbeddedCluster(clock, 1, {**overrides, "transaction.state.log.min.isr": "1"}) as cluster,
            ContractWorld(["broker-0:9092"], network=cluster.network.host("client"), clock=clock) as world,
        ):
            await CHECKS[name](world)

    run_virtual(main)


@pytest.mark.parametrize("core", FACES, ids=lambda core: core.__name__)
def test_every_method_has_a_part_in_the_contract(core: type) -> None:
    """Half of the consumer's methods, and most of the admin client's, were never called by a test."""
    source = "".join(inspect.getsource(part) for part in (*PARTS, worlds))
    asynchronous = {blocking: name for name, blocking in RENAMED.items()}
    public = [name for name, _ in inspect.getmembers(FACES[core], callable) if not name.startswith("_")]
    assert [name for name in public if f".{asynchronous.get(name, name)}" not in source] == []


@pytest.mark.parametrize("core", FACES, ids=lambda core: core.__name__)
def test_the_blocking_form_has_the_parameters_of_the_asyncio_one(core: type) -> None:
    renamed = {blocking: name for name, blocking in RENAMED.items()}
    for name, method in inspect.getmembers(FACES[core], inspect.isfunction):
        if name.startswith("_") or name in ("close", "transaction"):
            continue
        there = inspect.signature(getattr(core, renamed.get(name, name)))
        assert list(inspect.signature(method).parameters) == list(there.parameters), name
