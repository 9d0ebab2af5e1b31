"""Encoding and decoding of messages, by functions that are compiled when a (class, version) is first needed, and kept.

`encoder` and `decoder` return the functions themselves, for callers that keep them (a connection, a table of handlers);
`encode` and `decode` call them. A decoder raises MalformedMessage and nothing else.

Versioned values begin with their version, an int16, followed by a message of that version. They are the keys and values
of `__consumer_offsets` and `__transaction_state`, and what consumers put into JoinGroup and SyncGroup.
"""

from collections.abc import Callable, Iterator
from struct import error as StructError  # noqa: N812 - a class, named as the classes are
from typing import Any, Final, TypeAlias, TypeVar, cast

from odradek.protocol.decoder_source import DecoderSource, flexible_in
from odradek.protocol.encoder_source import EncoderSource
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message, SharedArray, Struct
from odradek.protocol.primitives import Buffer, Part
from odradek.protocol.steps import Steps

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=Struct)
Encoder: TypeAlias = Callable[[Any, list[Part]], None]
"""Appends the pieces of a message to a list: bytes, and the values of `records` fields as they are."""

StepwiseEncoder: TypeAlias = Callable[[Any, list[Part]], Iterator[None]]
"""Encoder that pauses after each struct of an array."""

Decoder: TypeAlias = Callable[[Buffer, int], tuple[M, int]]
"""Reads a message at a position; returns it and the position behind it."""

PIECES_MAX = 1000
"""Most pieces of a message that is encoded in steps before they are joined into one."""


def check_version(message: type[Message], version: int) -> None:
    lowest, highest = message.VERSIONS
    assert lowest <= version <= highest, f"{message.__name__} has versions {lowest}-{highest}, not {version}"


_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder[Any]] = {}
_limited_decoders: dict[tuple[type[Message], int], Decoder[Any]] = {}
_stepwise_encoders: dict[tuple[type[Struct], int], StepwiseEncoder] = {}
"""Functions made so far: at most one for every version of every message or struct, so they need no limit."""

ELEMENTS_MAX: Final = 500_000
"""Most structs and texts in all arrays of a message together: enough for a request about each of 200,000 partitions, as
many as the largest cluster has that works with ZooKeeper."""
ELEMENTS_IN_STEPS_MAX: Final = 4 * ELEMENTS_MAX
"""The same limit for messages that are decoded in steps. It is higher, as metadata of the whole cluster has to fit."""


def encoder(message: type[Message], version: int) -> Encoder:
    """Return the encoder of one version. Fields that the version does not have are left out, whatever their value."""
    known = _encoders.get((message, version))
    return known or _encoders.setdefault((message, version), compiled_encoder(message, version))


def decoder(message: type[M], version: int) -> Decoder[M]:
    """Return the decoder of one version. What it raises is MalformedMessage.

    Strings and bytes are copies; `records` are memoryview slices of the input.
    """
    known = _decoders.get((message, version))
    return known or _decoders.setdefault((message, version), compiled_decoder(message, version))


def decode_limited(message: type[M], version: int, data: Buffer, at: int) -> tuple[M, int]:
    """Decode as a decoder does, but refuse a message whose arrays have more than ELEMENTS_MAX elements together: each
    byte of the smallest elements would take 250 bytes of memory. Raises MalformedMessage."""
    known = _limited_decoders.get((message, version))
    if known is None:
        known = compiled_decoder(message, version, elements_max=ELEMENTS_MAX)
        _limited_decoders[message, version] = known
    return known(data, at)


def stepwise_decoder(message: type[M], version: int) -> Callable[[Buffer, int], Steps[tuple[M, int]]]:
    """Return a decoder that pauses after each struct of an array, for messages about tens of thousands of partitions.
    It refuses more than ELEMENTS_IN_STEPS_MAX elements. It is compiled at each call: keep it."""
    made_decoder = compiled_decoder(message, version, stepwise=True, elements_max=ELEMENTS_IN_STEPS_MAX)
    return cast(Callable[[Buffer, int], Steps[tuple[M, int]]], made_decoder)


def encode_in_steps(value: Message, version: int, parts: list[Part]) -> Iterator[None]:
    """Encode as an encoder does, with a pause after each struct of an array, for messages about tens of thousands of
    partitions.

    Pieces are joined, so the message must have no `records`.
    """
    return _joined(_stepwise_encoder(value.__class__, version, flexible_in(value.__class__, version)), value, parts)


def share(message: type[Message], version: int, elements: list[S]) -> Steps[SharedArray[S]]:
    """Encode the elements of an array that is marked as shared in messages of this class and version. They must not
    change any more."""
    parts: list[Part] = []
    for element in elements:
        encoder_of_one = _stepwise_encoder(element.__class__, version, flexible_in(message, version))
        yield from _joined(encoder_of_one, element, parts)
    return SharedArray(elements, version, [b"".join(parts)])


def _joined(encode_one: StepwiseEncoder, value: Struct, parts: list[Part]) -> Iterator[None]:
    """Encode, and join the pieces: many take longer to send than one."""
    whole = len(parts)
    for _ in encode_one(value, parts):
        if len(parts) - whole > PIECES_MAX:
            parts[whole:] = [b"".join(parts[whole:])]
            whole += 1
        yield
    parts[whole:] = [b"".join(parts[whole:])]


def _stepwise_encoder(struct: type[Struct], version: int, flexible: bool) -> StepwiseEncoder:
    known = _stepwise_encoders.get((struct, version))
    return known or _stepwise_encoders.setdefault((struct, version), _made_encoder(struct, version, flexible, True))


def compiled_encoder(message: type[Message], version: int) -> Encoder:
    check_version(message, version)
    return cast(Encoder, _made_encoder(message, version, flexible_in(message, version)))


def _made_encoder(struct: type[Struct], version: int, flexible: bool, stepwise: bool = False) -> Any:
    writer = EncoderSource(struct, version, flexible, stepwise=stepwise)
    return made(writer.source(), writer.known, "encode", struct, version)


def compiled_decoder(
    message: type[M], version: int, *, stepwise: bool = False, elements_max: int | None = None
) -> Decoder[M]:
    check_version(message, version)
    flexible = flexible_in(message, version)
    writer = DecoderSource(message, version, flexible, stepwise=stepwise, elements_max=elements_max)
    source = writer.source()
    names = {**writer.known, "MalformedMessage": MalformedMessage, "StructError": StructError}
    return cast(Decoder[M], made(source, names, "decode", message, version))


def made(source: str, names: dict[str, Any], function: str, message: type[Struct], version: int) -> Any:
    code = compile(source, f"<{function} {message.__name__} {version}>", "exec")
    exec(code, names)
    return names[function]


def encode(value: Message, version: int) -> bytes:
    """Return the whole message as bytes. Its `records` must be bytes."""
    parts: list[Part] = []
    encoder(value.__class__, version)(value, parts)
    return b"".join(parts)


def decode(message: type[M], version: int, data: Buffer) -> M:
    """Decode a message that fills `data` exactly. Raises MalformedMessage."""
    value, at = decoder(message, version)(data, 0)
    if at != len(data):
        raise MalformedMessage(f"{message.__name__} version {version}: {len(data) - at} bytes are left over")
    return value


VERSION_BYTES = 2


def encode_versioned(value: Message, version: int) -> bytes:
    return version.to_bytes(VERSION_BYTES, "big") + encode(value, version)


def version_of(data: Buffer) -> int:
    """Return the version at the start of `data`. Raises MalformedMessage if there is none."""
    if len(data) < VERSION_BYTES:
        raise MalformedMessage(f"no version in {len(data)} bytes")
    return int.from_bytes(data[:VERSION_BYTES], "big", signed=True)


def decode_versioned(message: type[M], data: Buffer) -> tuple[int, M]:
    """Return version and value. Raises MalformedMessage, also for an unknown version and for bytes left over."""
    version = version_of(data)
    lowest, highest = message.VERSIONS
    if not lowest <= version <= highest:
        raise MalformedMessage(f"{message.__name__} of version {version}; known are {lowest}-{highest}")
    return version, decode(message, version, memoryview(data)[VERSION_BYTES:])


def decode_growing(message: type[M], data: Buffer) -> tuple[int, M]:
    """Decode a message whose later versions only add fields at the end: one that is newer than those known is read as
    the newest of them. Raises MalformedMessage."""
    version = version_of(data)
    lowest, highest = message.VERSIONS
    if version < lowest:
        raise MalformedMessage(f"{message.__name__} of version {version}")
    value, _ = decoder(message, min(version, highest))(memoryview(data)[VERSION_BYTES:], 0)
    return version, value
