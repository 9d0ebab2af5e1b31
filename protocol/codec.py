"""Messages to bytes and back, by functions that are made when a (class, version) is first needed, and kept.

`encoder` and `decoder` give the functions themselves, for those who keep them (a connection, a table of handlers);
`encode` and `decode` are the plain forms. A decoder raises MalformedMessage and nothing else.
"""

from collections.abc import Callable
from struct import error as StructError  # noqa: N812 - a class, named as the classes are
from typing import Any, TypeAlias, TypeVar, cast

from odradek.protocol.decoder_source import DecoderSource, flexible_in
from odradek.protocol.encoder_source import EncoderSource
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message
from odradek.protocol.primitives import Buffer, Part
from odradek.protocol.steps import Steps

M = TypeVar("M", bound=Message)
Encoder: TypeAlias = Callable[[Any, list[Part]], None]
"""Appends the pieces of a message to a list: bytes, and what stands in `records` fields as it is."""

Decoder: TypeAlias = Callable[[Buffer, int], tuple[M, int]]
"""Reads a message at a position: the message and the position behind it."""


def check_version(message: type[Message], version: int) -> None:
    lowest, highest = message.VERSIONS
    assert lowest <= version <= highest, f"{message.__name__} has versions {lowest}-{highest}, not {version}"


_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder[Any]] = {}
"""Decoders made so far: at most one for every version of every message, so they need no limit."""


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


def stepwise_decoder(message: type[M], version: int) -> Callable[[Buffer, int], Steps[tuple[M, int]]]:
    """Make a decoder that may be paused after each struct of an array: of a request with ten thousand partitions."""
    return cast(Callable[[Buffer, int], Steps[tuple[M, int]]], compiled_decoder(message, version, stepwise=True))


def compiled_encoder(message: type[Message], version: int) -> Encoder:
    check_version(message, version)
    writer = EncoderSource(message, version, flexible_in(message, version))
    return cast(Encoder, made(writer.source(), writer.known, "encode", message, version))


def compiled_decoder(message: type[M], version: int, *, stepwise: bool = False) -> Decoder[M]:
    check_version(message, version)
    writer = DecoderSource(message, version, flexible_in(message, version), stepwise=stepwise)
    source = writer.source()
    names = {**writer.known, "MalformedMessage": MalformedMessage, "StructError": StructError}
    return cast(Decoder[M], made(source, names, "decode", message, version))


def made(source: str, names: dict[str, Any], function: str, message: type[Message], version: int) -> Any:
    code = compile(source, f"<{function} {message.__name__} {version}>", "exec")
    exec(code, names)
    return names[function]


def encode(value: Message, version: int) -> bytes:
    """Return the whole message as bytes; its records must be bytes too."""
    parts: list[Part] = []
    encoder(value.__class__, version)(value, parts)
    return b"".join(parts)


def decode(message: type[M], version: int, data: Buffer) -> M:
    """Decode a message that fills `data` exactly. Raises MalformedMessage."""
    value, at = decoder(message, version)(data, 0)
    if at != len(data):
        raise MalformedMessage(f"{message.__name__} version {version}: {len(data) - at} bytes are left over")
    return value
