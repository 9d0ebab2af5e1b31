"""The one thing a coordinator reads in a member's metadata: which topics a consumer is subscribed to.

Metadata is opaque to group membership. Expiry of offsets (KIP-211) and OffsetDelete need the topics, so the first
fields of ConsumerProtocolSubscription, the same in all its versions, are read here: int16 version, array of topic names.
"""

import struct
from collections.abc import Iterable

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None when one of them does not hold a subscription."""
    topics: set[str] = set()
    for one in metadata:
        try:
            topics.update(_topics(one))
        except (struct.error, UnicodeDecodeError, ValueError):
            return None
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str]:
    version, count = struct.unpack_from(">hi", metadata)
    if version < 0 or count < 0 or count > len(metadata):
        raise ValueError(f"no subscription: version {version}, {count} topics")
    at = 6
    topics = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", metadata, at)
        at += 2
        if length < 0 or at + length > len(metadata):
            raise ValueError(f"topic name of {length} bytes at {at}")
        topics.append(metadata[at : at + length].decode())
        at += length
    return topics
