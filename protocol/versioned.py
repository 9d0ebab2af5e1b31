"""Values that carry their own version: an int16, then a message of that version.

So are written the keys and values of `__consumer_offsets` and `__transaction_state`, the keys and values of control
records, and what consumers put into JoinGroup and SyncGroup.
"""

from typing import TypeVar

from odradek.protocol.codec import decode, decoder, encode
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.primitives import Buffer

M = TypeVar("M", bound=Message)

VERSION_BYTES = 2


def encode_versioned(value: Message, version: int) -> bytes:
    return version.to_bytes(VERSION_BYTES, "big") + encode(value, version)


def version_of(data: Buffer) -> int:
    """Return the version at the start of `data`; raises MalformedMessage when there is none."""
    if len(data) < VERSION_BYTES:
        raise MalformedMessage(f"no version in {len(data)} bytes")
    return int.from_bytes(data[:VERSION_BYTES], "big", signed=True)


def decode_versioned(message: type[M], data: Buffer) -> tuple[int, M]:
    """Version and value. Raises MalformedMessage, also for a version that we do not have or bytes left over."""
    version = version_of(data)
    lowest, highest = message.VERSIONS
    if not lowest <= version <= highest:
        raise MalformedMessage(f"{message.__name__} of version {version}; known are {lowest}-{highest}")
    return version, decode(message, version, memoryview(data)[VERSION_BYTES:])


def decode_growing(message: type[M], data: Buffer) -> tuple[int, M]:
    """Decode a message whose later versions only add to the end: a newer one is read as the newest we have."""
    version = version_of(data)
    lowest, highest = message.VERSIONS
    if version < lowest:
        raise MalformedMessage(f"{message.__name__} of version {version}")
    value, _ = decoder(message, min(version, highest))(memoryview(data)[VERSION_BYTES:], 0)
    return version, value
