"""Principals that have one right each, none, or nearly all; and what the answer to a request says of rights.

The principals are hosts: all are User:ANONYMOUS, and a line of an access list names the address that one comes from, so
that a broker needs no authentication for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from odradek.broker.security.acls import OPERATIONS_ON, AclOperation, AclPermission
from odradek.protocol.fields import Message, Struct
from odradek.protocol.messages import create_topics, find_coordinator, init_producer_id, offset_commit
from odradek.zk_schema.znodes.acls import AclEntry, PatternType, ResourcePattern, ResourceType, encode_acls

ADMIN: Final = "127.0.0.1"
"""May do everything: the brokers themselves, and who prepares the cluster."""
TOPICS: Final = ("t", "p-x", "other")
"""They exist; `missing` and `gone` do not."""
ASKED: Final = (*TOPICS, "missing")
GROUPS: Final = ("g", "p-g", "other")
TRANSACTIONS: Final = ("tx", "other")
NOT_THERE: Final = 7
"""A partition that no topic has."""

Line = tuple[ResourceType, str, PatternType, AclOperation, AclPermission]
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
ALL = AclOperation.ALL

NAMES: Final[dict[ResourceType, tuple[str, ...]]] = {
    ResourceType.TOPIC: ("t", "gone"),
    ResourceType.GROUP: ("g",),
    ResourceType.CLUSTER: ("kafka-cluster",),
    ResourceType.TRANSACTIONAL_ID: ("tx",),
}
"""Names of resources, by type, on which a principal of one right has it."""


def _principals() -> Iterator[tuple[str, list[Line]]]:
    yield "nothing", []
    for kind, names in NAMES.items():
        for operation in OPERATIONS_ON[kind]:
            yield f"{operation.name} on {kind.name}", [(kind, name, LITERAL, operation, ALLOW) for name in names]
    everything: list[Line] = [(kind, "*", LITERAL, ALL, ALLOW) for kind in NAMES]
    yield "all topics", [(ResourceType.TOPIC, "*", LITERAL, ALL, ALLOW)]
    yield "prefix p-", [(kind, "p-", PREFIXED, ALL, ALLOW) for kind in NAMES]
    yield "all but READ on t", [*everything, (ResourceType.TOPIC, "t", LITERAL, AclOperation.READ, DENY)]
    yield "all but DESCRIBE on p-", [*everything, (ResourceType.TOPIC, "p-", PREFIXED, AclOperation.DESCRIBE, DENY)]
    yield "all but READ on g", [*everything, (ResourceType.GROUP, "g", LITERAL, AclOperation.READ, DENY)]
    yield (
        "all but ALTER on the cluster",
        [*everything, (ResourceType.CLUSTER, "kafka-cluster", LITERAL, AclOperation.ALTER, DENY)],
    )
    yield "everything", everything


PRINCIPALS: Final[Mapping[str, Sequence[Line]]] = dict(_principals())
HOSTS: Final[Mapping[str, str]] = {name: f"127.0.0.{10 + at}" for at, name in enumerate(PRINCIPALS)}


def access_lists(administrator: str = ADMIN) -> dict[str, bytes]:
    """Return by path the znodes that give all of them what they may, and everything to whoever comes from that host."""
    entries: dict[ResourcePattern, list[AclEntry]] = {}
    admin: list[Line] = [(kind, "*", LITERAL, ALL, ALLOW) for kind in NAMES]
    for host, lines in ((administrator, admin), *((HOSTS[name], lines) for name, lines in PRINCIPALS.items())):
        for kind, name, pattern, operation, permission in lines:
            entry = AclEntry("User:ANONYMOUS", permission.word, operation.word, host)
            entries.setdefault(ResourcePattern(kind, name, pattern), []).append(entry)
    return {pattern.path: encode_acls(lines) for pattern, lines in entries.items()}


TOPIC_EXISTS: Final = 36
IDENTITIES: Final = (
    "name", "topic_name", "topic", "group_id", "key", "transactional_id", "resource_name", "partition_index",
    "partition_id", "index", "partition", "member_id",
)  # fmt: skip
"""Fields that tell the elements of a list apart, the first that an element has."""
NOT_LOOKED_AT: Final = frozenset(
    {
        "brokers",
        "configs",
        "members",
        "node_endpoints",
        "acls",
        "record_errors",
        "replica_nodes",
        "isr_nodes",
        "records",
    }
)
OPERATIONS: Final = (
    "topic_authorized_operations", "cluster_authorized_operations", "authorized_operations",
)  # fmt: skip


def observed(answer: Message | None) -> list[str]:
    """Describe what an answer says of rights: every error, every operation, and what is shown at all.

    None, for a connection that was closed instead, gives `closed`.
    """
    return ["closed"] if answer is None else sorted(_seen(answer, ""))


def _seen(one: Struct, path: str) -> Iterator[str]:
    for line in one.FIELDS:
        value: Any = getattr(one, line.name)
        if line.name in NOT_LOOKED_AT:
            continue
        if line.name.endswith("error_code") and value:
            yield f"{path}{line.name}={int(value)}"
        elif line.name in OPERATIONS and value != -(2**31):
            yield f"{path}{line.name}={value}"
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for at, element in enumerate(value):
                inner = f"{path}{line.name}[{_identity(element, at)}]"
                below = list(_seen(element, f"{inner}."))
                yield from below or [inner]


def _identity(element: Struct, at: int) -> object:
    kind = f"{element.resource_type}:" if hasattr(element, "resource_type") else ""
    for name in IDENTITIES:
        if hasattr(element, name):
            value = getattr(element, name)
            return f"{kind}{value}"
    return at


def grouped(record: Mapping[str, Mapping[str, list[str]]]) -> dict[str, list[dict[str, list[str]]]]:
    """Return the record of all cases, with those principals together who were answered the same."""
    table: dict[str, list[dict[str, list[str]]]] = {}
    for case, by_principal in record.items():
        groups: dict[tuple[str, ...], list[str]] = {}
        for principal, lines in by_principal.items():
            groups.setdefault(tuple(lines), []).append(principal)
        table[case] = [{"principals": who, "answer": list(lines)} for lines, who in groups.items()]
    return table


def _begin(transactional_id: str) -> Message:
    return init_producer_id.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=10_000)


def preparation() -> list[tuple[Message, int]]:
    """Return the administrator's requests before the cases, each with its version; to be sent until they succeed."""
    made = [create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS]
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    committed = [offset_commit.OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in TOPICS]
    return [
        (create_topics.CreateTopicsRequest(topics=made, timeout_ms=10_000), 7),
        *((find_coordinator.FindCoordinatorRequest(key=name, key_type=0), 3) for name in GROUPS),
        *((find_coordinator.FindCoordinatorRequest(key=name, key_type=1), 3) for name in TRANSACTIONS),
        *(
            (init_producer_id.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=10_000), 4)
            for name in TRANSACTIONS
        ),
        *((offset_commit.OffsetCommitRequest(group_id=name, topics=committed), 8) for name in (*GROUPS, "all")),
    ]


def succeeded(answer: Message) -> bool:
    """Tell whether a step of the preparation is done, now or before."""
    return all("error_code=" not in line or line.endswith(f"={TOPIC_EXISTS}") for line in observed(answer))
