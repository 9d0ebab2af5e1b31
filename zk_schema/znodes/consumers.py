"""/consumers/[group]: the tree of the 0.8 consumer, which balances its group in ZooKeeper.

ids/[consumer]                  ephemeral: a member and what it subscribes to
owners/[topic]/[partition]      ephemeral: the consumer thread that owns the partition
offsets/[topic]/[partition]     the next offset to consume
"""

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.zk_schema.znodes.json_data import Fields, dump, whole_number

CONSUMERS_PATH = "/consumers"

STATIC = "static"
WHITE_LIST = "white_list"
BLACK_LIST = "black_list"


def group_path(group: str) -> str:
    return f"{CONSUMERS_PATH}/{group}"


def consumer_ids_path(group: str) -> str:
    return f"{group_path(group)}/ids"


def consumer_id_path(group: str, consumer_id: str) -> str:
    return f"{consumer_ids_path(group)}/{consumer_id}"


def owners_path(group: str, topic: str) -> str:
    return f"{group_path(group)}/owners/{topic}"


def owner_path(group: str, topic: str, partition: int) -> str:
    return f"{owners_path(group, topic)}/{partition}"


def offsets_path(group: str, topic: str) -> str:
    return f"{group_path(group)}/offsets/{topic}"


def offset_path(group: str, topic: str, partition: int) -> str:
    return f"{offsets_path(group, topic)}/{partition}"


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """A member of a group.

    Version 1: {"version":1,"subscription":{"topic":2},"pattern":"static","timestamp":"1416341255235"}

    `subscription` gives each topic its number of threads. With the pattern `white_list` or `black_list` it has one
    entry, whose key is a regular expression over topic names.
    """

    subscription: Mapping[str, int]
    pattern: str = STATIC
    timestamp_ms: int = 0

    def encode(self) -> bytes:
        return dump(
            {
                "version": 1,
                "subscription": dict(self.subscription),
                "pattern": self.pattern,
                "timestamp": str(self.timestamp_ms),
            }
        )

    @classmethod
    def decode(cls, group: str, consumer_id: str, data: bytes) -> "ConsumerRegistration":
        """Decode a member's registration. Raises BadZnode."""
        fields = Fields(consumer_id_path(group, consumer_id), data)
        pattern = fields.text("pattern", STATIC)
        if pattern not in (STATIC, WHITE_LIST, BLACK_LIST):
            raise fields.bad(f"unknown pattern {pattern!r}")
        subscription = fields.mapping("subscription")
        if not all(isinstance(threads, int) for threads in subscription.values()):
            raise fields.bad("a subscription without a number of threads")
        return cls(dict(subscription), pattern, fields.long("timestamp", 0))


def encode_owner(consumer_thread_id: str) -> bytes:
    """Encode the owner of a partition as plain text: the consumer's id, `-`, the thread's number."""
    return consumer_thread_id.encode()


def decode_owner(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def encode_offset(offset: int) -> bytes:
    """Encode an offset as plain decimal text."""
    return str(offset).encode()


def decode_offset(group: str, topic: str, partition: int, data: bytes) -> int:
    """Decode an offset. Raises BadZnode."""
    return whole_number(offset_path(group, topic, partition), data)
