"""What Kafka's AclAuthorizer answers each principal to each request: the record that ours is compared with in memory.

To write the record anew: ODRADEK_RECORD=1 with this test.
"""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.testing.authorization_cases import CASES
from odradek.testing.authorization_record import (
    ADMIN,
    HOSTS,
    PRINCIPALS,
    access_lists,
    grouped,
    observed,
    preparation,
    succeeded,
)
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.foreign.stage import Stage
from odradek.testing.patience import wait_until
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore

pytestmark = pytest.mark.cluster

RECORD = Path(__file__).parents[1] / "broker" / "security" / "kafka_answers.json"
AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "log.retention.ms": "-1"}


def write_access_lists(zookeeper: str) -> None:
    """Before the broker starts, which may do nothing without them."""

    async def write() -> None:
        store = KazooStore(zookeeper, LoopClock(asyncio.get_running_loop()))
        await store.start(10_000)
        for path, data in access_lists().items():
            await store.create(path, data, parents=True)
        await store.close()

    asyncio.run(write())


def answers(address: str) -> dict[str, dict[str, list[str]]]:
    """What each principal is answered to each case."""
    with RawConnection(address, ADMIN) as administrator:
        for request, version in preparation():
            wait_until(lambda: succeeded(administrator.ask(request, version)), f"{request}")  # noqa: B023
    connections = {name: RawConnection(address, host) for name, host in HOSTS.items()}
    record: dict[str, dict[str, list[str]]] = {}
    for case in CASES:
        record[case.label] = {}
        for number, (principal, lines) in enumerate(PRINCIPALS.items()):
            if not case.only(lines):
                continue
            try:
                answer = connections[principal].ask(case.make(number), case.version)
            except EOFError:
                answer = None
                connections[principal] = RawConnection(address, HOSTS[principal])
            record[case.label][principal] = observed(answer)
    for connection in connections.values():
        connection.close()
    return record


def test_the_record_is_what_kafka_answers(new_stage: Callable[..., Stage]) -> None:
    stage = new_stage(**AUTHORIZER)
    write_access_lists(stage.zookeeper)
    kafka = stage.kafka()
    record = grouped(answers(stage.address))
    kafka.stop()
    if os.environ.get("ODRADEK_RECORD"):
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    assert record == json.loads(RECORD.read_text())


ACLS = "kafka.admin.AclCommand"


def test_kafkas_tool_keeps_our_access_lists(new_stage: Callable[..., Stage]) -> None:
    stage = new_stage(**AUTHORIZER)
    write_access_lists(stage.zookeeper)
    ours = stage.odradek()
    tool = ("--bootstrap-server", stage.address)
    run = stage.jars.run
    run(ACLS, *tool, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders-",
        "--resource-pattern-type", "prefixed")  # fmt: skip
    listed = run(ACLS, *tool, "--list", "--principal", "User:alice")
    assert "resourceType=TOPIC, name=orders-, patternType=PREFIXED" in listed
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"(principal=User:alice, host=*, operation={operation}, permissionType=ALLOW)" in listed
    run(ACLS, *tool, "--remove", "--force", "--topic", "orders-", "--resource-pattern-type", "prefixed")
    assert "User:alice" not in run(ACLS, *tool, "--list", "--topic", "orders-1", "--resource-pattern-type", "match")
    ours.stop()
    assert not ours.complaints()
