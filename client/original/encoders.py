"""Encoders of messages and keys, and partitioners of keys. No I/O.

`serializer.class` and `partitioner.class` may be objects, classes and functions, or names of Kafka's own classes.
"""

from collections.abc import Callable
from typing import Any, Protocol

from odradek.client.errors import ConfigError
from odradek.client.original.messages import Message
from odradek.protocol.topic_names import java_hash

MASK_32, MASK_31 = 0xFFFFFFFF, 0x7FFFFFFF


class Encoder(Protocol):
    """A serializer of messages or keys. An object with `to_message(data) -> Message`, as in 0.7, is accepted, too."""

    def to_bytes(self, data: Any) -> bytes | None:
        """Return the bytes of a message or a key."""


class DefaultEncoder:
    """Encoder of bytes, which stay as they are: Kafka's default."""

    def to_bytes(self, data: Any) -> bytes | None:
        """Return the bytes, or None. Raises TypeError for anything else."""
        if data is None or isinstance(data, (bytes, bytearray, memoryview)):
            return None if data is None else bytes(data)
        raise TypeError(f"DefaultEncoder takes bytes, not {type(data).__name__}: set serializer.class")


class StringEncoder:
    """Encoder of text as UTF-8 (in Kafka `serializer.encoding` can be another)."""

    def to_bytes(self, data: Any) -> bytes | None:
        """Return the text's bytes, or None. Raises TypeError for anything else."""
        if data is None or isinstance(data, str):
            return None if data is None else data.encode()
        raise TypeError(f"StringEncoder takes text, not {type(data).__name__}")


class NullEncoder:
    """Encoder that always returns None: for keys that choose a partition and are not stored."""

    def to_bytes(self, data: Any) -> bytes | None:
        """Return None."""
        return None


KAFKAS_ENCODERS: dict[str, type[Encoder]] = {
    f"kafka.serializer.{one.__name__}": one for one in (DefaultEncoder, StringEncoder, NullEncoder)
}
Encode = Callable[[Any], bytes | None]
"""Function that returns the bytes of a message or key."""


def encode_function(given: Any, setting: str) -> Encode:
    """Return an encoder as one function. Raises ConfigError."""
    if isinstance(given, str):
        if given not in KAFKAS_ENCODERS:
            raise ConfigError(f"{setting}: {given!r} is none of {', '.join(KAFKAS_ENCODERS)}: give the object itself")
        given = KAFKAS_ENCODERS[given]
    encoder = given() if isinstance(given, type) else given
    for method in ("to_bytes", "to_message"):
        if callable(getattr(encoder, method, None)) and not isinstance(encoder, int):
            return _checked(getattr(encoder, method), setting)
    if callable(encoder):
        return _checked(encoder, setting)
    raise ConfigError(f"{setting} must be an Encoder or a function, not {given!r}")


def _checked(function: Callable[[Any], Any], setting: str) -> Encode:
    def encode(data: Any) -> bytes | None:
        made = function(data)
        payload = made.payload if isinstance(made, Message) else made
        if payload is None or isinstance(payload, bytes):
            return payload
        raise TypeError(f"{setting} must give bytes or a Message, not {type(made).__name__}")

    return encode


def hash_of_key(key: Any) -> int:
    """Return Java's hash of a text, a whole number or bytes, unsigned. Raises TypeError for anything else.

    String.hashCode, Integer's, Long's from 2**31 on, and Arrays.hashCode of byte[] (Kafka's ByteArrayPartitioner).
    """
    if isinstance(key, str):
        return java_hash(key) & MASK_32
    if isinstance(key, (bytes, bytearray)):
        hashed = 1
        for byte in key:
            hashed = (31 * hashed + (byte - 256 if byte > 127 else byte)) & MASK_32
        return hashed
    if isinstance(key, int) and not isinstance(key, bool) and -(2**63) <= key < 2**63:
        unsigned = key & 0xFFFF_FFFF_FFFF_FFFF
        return key & MASK_32 if -(2**31) <= key < 2**31 else (unsigned ^ (unsigned >> 32)) & MASK_32
    raise TypeError(
        f"partitioner.class: there is no hash of {type(key).__name__} in common with Java: give a Partitioner"
    )


Partition = Callable[[Any, int], int]
"""Function of a key and a number of partitions that returns a partition."""


def default_partition(key: Any, partitions: int) -> int:
    """Return hash(key) % partitions, as Kafka 0.8's DefaultPartitioner does."""
    return (hash_of_key(key) & MASK_31) % partitions


KAFKAS_PARTITIONERS = ("kafka.producer.DefaultPartitioner", "kafka.producer.ByteArrayPartitioner")


def partition_function(given: Any) -> Partition:
    """Return a partitioner as one function; an object has `partition(key, partitions)`. Raises ConfigError."""
    if given in KAFKAS_PARTITIONERS or given is None:
        return default_partition
    partitioner = given() if isinstance(given, type) else given
    method = getattr(partitioner, "partition", None)
    if callable(method) and not isinstance(partitioner, (str, bytes)):
        found: Partition = method
        return found
    if callable(partitioner):
        return partitioner  # type: ignore[no-any-return]
    raise ConfigError(f"partitioner.class must be a Partitioner or a function of (key, partitions), not {given!r}")
