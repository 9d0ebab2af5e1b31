"""The one thing a coordinator reads in a member's metadata: which topics a consumer is subscribed to.

Metadata is opaque to group membership. Expiry of offsets (KIP-211) and OffsetDelete need the topics, which stand first
in all versions of ConsumerProtocolSubscription; whatever follows them is not looked at.
"""

from collections.abc import Iterable

from odradek.protocol.codec import decoder
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.versioned import VERSION_BYTES, version_of

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None when one of them does not hold a subscription."""
    topics: set[str] = set()
    decode = decoder(ConsumerProtocolSubscription, 0)
    for one in metadata:
        try:
            version_of(one)
            topics.update(decode(one, VERSION_BYTES)[0].topics)
        except MalformedMessage:
            return None
    return frozenset(topics)
