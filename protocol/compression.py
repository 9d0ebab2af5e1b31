"""Codecs of record batches and message sets: none, gzip, snappy, lz4, zstd, by Kafka's numbers.

Decompression has a limit on the size of the result, so that a few received bytes cannot fill memory. A caller that has
other work takes the content in pieces, and need not keep them. All faults of compressed bytes raise BadCompression.
"""

import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Final

import lz4.frame
import snappy
import zstandard

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.lz4_frame import HEADER_CHECKSUM_BYTE, break_header_checksum, repair_header_checksum
from odradek.protocol.primitives import Buffer
from odradek.protocol.steps import STEP_BYTES, Steps, at_once

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODEC_NAMES: tuple[str, ...] = ("none", "gzip", "snappy", "lz4", "zstd")

MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024
"""The most that one batch may decompress to, unless the caller says otherwise."""

DECOMPRESSED_AT_ONCE: Final = 1 << 20
"""Size of a piece: it takes three milliseconds at most, with snappy, and a third of one with zstd."""
MAX_GZIP_MEMBERS: Final = 64
"""Most members of one gzip stream: each costs a copy of the bytes behind it."""
ZSTD_BLOCKS_AT_ONCE: Final = 8
ZSTD_RUN: Final = 1
"""Type of a block of one byte that is repeated (RFC 8878, 3.1.1.2.2)."""
SNAPPY_BLOCK_BYTES: Final = 32 * 1024
SNAPPY_BLOCKS_AT_ONCE: Final = 256
"""Blocks in one piece at most: so many empty ones take two milliseconds."""
LZ4_DEFAULT_LEVEL: Final = 9
"""Kafka's default, for which it uses its fast compressor; the other levels are those of its high compressor
(Lz4BlockOutputStream of Kafka 3.9)."""
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
"""Header of snappy-java's SnappyOutputStream: the magic, its version, the lowest version that can read it."""
MAX_SNAPPY_RATIO: Final = 64
"""Highest ratio of a snappy block, as a copy element turns two or three bytes into at most 64: a block that announces
more is damaged."""


class BadCompression(MalformedMessage):
    """Bytes that their codec cannot decompress, or that decompress to more than the limit."""


class DecompressesTooLarge(BadCompression):
    """Compressed bytes that may be valid, but decompress to more than the limit."""


class UnknownCodec(BadCompression):
    """A codec number that Kafka does not use (5-7), or a codec that a format does not have."""


def codec_number(name: str) -> int:
    """Return the number of a codec's name; "uncompressed" is another name of "none". Raises KeyError."""
    if name == "uncompressed":
        return NONE
    try:
        return CODEC_NAMES.index(name)
    except ValueError:
        raise KeyError(name) from None


def compress(codec: int, data: Buffer, *, level: int | None = None, broken_lz4_checksum: bool = False) -> bytes:
    """Compress `data` as Kafka's Java clients do it.

    `level`: of gzip (1-9), lz4 (1-17) or zstd; None is the codec's default. `broken_lz4_checksum`: write the frame
    header checksum that message sets of magic 0 need (KAFKA-3160). Raises UnknownCodec.
    """
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return at_once(_gzip_compress(data, level))
    if codec == SNAPPY:
        return _snappy_compress(data)
    if codec == LZ4:
        return _lz4_compress(data, 0 if level in (None, LZ4_DEFAULT_LEVEL) else level, broken_lz4_checksum)
    if codec == ZSTD:
        return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    raise UnknownCodec(f"no codec has the number {codec}")


def decompress(codec: int, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES, *, lenient_lz4: bool = False) -> bytes:
    """Return the content of compressed `data`.

    `lenient_lz4`: do not check the lz4 frame header's checksum (message sets of magic 0). Raises BadCompression, which
    is DecompressesTooLarge for more than `limit` bytes.
    """
    if codec == NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    if codec == LZ4:
        return b"".join(pieces(LZ4, data, limit, lenient_lz4=lenient_lz4))
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnknownCodec(f"no codec has the number {codec}")
    return decompressor(data, limit)


def compress_in_steps(codec: int, data: Buffer, *, level: int | None = None, for_magic_0: bool = False) -> Steps[bytes]:
    """Compress in steps with gzip, which takes 0.2 s for a megabyte; in one step with the other codecs."""
    if codec == GZIP:
        return (yield from _gzip_compress(data, level))
    yield
    return compress(codec, data, level=level, broken_lz4_checksum=for_magic_0)


def decompress_in_steps(codec: int, data: Buffer, limit: int, *, lenient_lz4: bool = False) -> Steps[bytes]:
    """Decompress as `decompress` does, with a pause for each piece."""
    content = []
    for piece in pieces(codec, data, limit, lenient_lz4=lenient_lz4):
        content.append(piece)
        yield
    return content[0] if len(content) == 1 else b"".join(content)


def pieces(
    codec: int, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES, *, lenient_lz4: bool = False
) -> Iterator[bytes]:
    """Yield the content of compressed `data`, about DECOMPRESSED_AT_ONCE of it at a time, `limit` bytes in all.

    A block of snappy is not divided: in Java's streams it has 32 KiB; clients that write no stream have one block.
    Raises BadCompression, after the valid pieces before the fault.
    """
    if codec == NONE:
        some: Iterator[bytes] = iter((bytes(data),))
    elif codec == GZIP:
        some = _gzip_pieces(data)
    elif codec == SNAPPY:
        some = _snappy_pieces(data, limit)
    elif codec == LZ4:
        some = _lz4_pieces(data, lenient_lz4)
    elif codec == ZSTD:
        some = _zstd_pieces(data)
    else:
        raise UnknownCodec(f"no codec has the number {codec}")
    left = limit
    for piece in some:
        left -= len(piece)
        if left < 0:
            raise _too_large(limit)
        yield piece


def _too_large(limit: int) -> DecompressesTooLarge:
    return DecompressesTooLarge(f"decompresses to more than {limit} bytes")


def _gzip_compress(data: Buffer, level: int | None) -> Steps[bytes]:
    packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    view, out = memoryview(data), bytearray()
    for at in range(0, len(view), STEP_BYTES):
        out += packer.compress(view[at : at + STEP_BYTES])
        yield
    out += packer.flush()
    return bytes(out)


def _gzip_pieces(data: Buffer) -> Iterator[bytes]:
    """Decompress one or more gzip members. Bytes behind the last one are refused."""
    rest: Buffer = data
    for _ in range(MAX_GZIP_MEMBERS):
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not unpacker.eof:
            try:
                piece = unpacker.decompress(rest, DECOMPRESSED_AT_ONCE)
            except zlib.error as error:
                raise BadCompression(f"gzip: {error}") from None
            rest = unpacker.unconsumed_tail
            if not unpacker.eof and len(piece) < DECOMPRESSED_AT_ONCE:
                raise BadCompression("gzip: the stream is cut off")
            yield piece
        rest = unpacker.unused_data
        if not rest:
            return
    raise BadCompression(f"gzip: more than {MAX_GZIP_MEMBERS} members")


def _snappy_compress(data: Buffer) -> bytes:
    """Compress as snappy-java's stream does: a header, then blocks of 32 KiB, each with its compressed length."""
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for at in range(0, len(view), SNAPPY_BLOCK_BYTES):
        block = snappy.compress(bytes(view[at : at + SNAPPY_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _snappy_pieces(data: Buffer, limit: int) -> Iterator[bytes]:
    """Decompress snappy-java streams, of which some clients write several in a row, or else one raw block."""
    view = memoryview(data)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield _snappy_block(view, limit)
        return
    if len(view) < len(XERIAL_HEADER):
        raise BadCompression("snappy: the stream's header is cut off")
    piece, left, blocks = bytearray(), limit, 0
    at = len(XERIAL_HEADER)
    while at < len(view):
        blocks += 1
        if bytes(view[at : at + len(XERIAL_MAGIC)]) == XERIAL_MAGIC:
            at += len(XERIAL_HEADER)
        else:
            size = int.from_bytes(view[at : at + 4], "big")
            block = view[at + 4 : at + 4 + size]
            if len(view) - at < 4 or len(block) < size:
                raise BadCompression("snappy: a block is cut off")
            content = _snappy_block(block, left)
            left -= len(content)
            piece += content
            at += 4 + size
        if len(piece) >= DECOMPRESSED_AT_ONCE or blocks % SNAPPY_BLOCKS_AT_ONCE == 0:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _snappy_block(block: memoryview, limit: int) -> bytes:
    """Decompress a raw block, which begins with the length of its content as a varint."""
    length = 0
    for index, group in enumerate(block[:5]):
        length |= (group & 0x7F) << (7 * index)
        if group < 0x80:
            break
    else:
        raise BadCompression("snappy: a block without its length")
    if length > limit:
        raise _too_large(limit)
    if length > MAX_SNAPPY_RATIO * len(block):
        raise BadCompression(f"snappy: {len(block)} bytes cannot hold {length}")
    try:
        content: bytes = snappy.decompress(bytes(block))
    except snappy.UncompressError as error:
        raise BadCompression(f"snappy: {error}") from None
    return content


def _lz4_compress(data: Buffer, level: int, broken_checksum: bool) -> bytes:
    """Return a frame of independent blocks of 64 KiB without checksums of content or blocks, as Java's reader needs."""
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        store_size=False,
    )
    return break_header_checksum(frame) if broken_checksum else frame


def _lz4_pieces(data: Buffer, lenient: bool) -> Iterator[bytes]:
    rest: Buffer = data
    if lenient and len(data) > HEADER_CHECKSUM_BYTE:
        rest = repair_header_checksum(data)
    unpacker = lz4.frame.LZ4FrameDecompressor()
    while not unpacker.eof:
        try:
            piece: bytes = unpacker.decompress(rest, max_length=DECOMPRESSED_AT_ONCE)
        except RuntimeError as error:
            raise BadCompression(f"lz4: {error}") from None
        if not unpacker.eof and len(piece) < DECOMPRESSED_AT_ONCE:
            raise BadCompression("lz4: the frame is cut off")
        rest = b""  # the decompressor keeps what it has not taken up
        yield piece


def _zstd_decompress(data: Buffer, limit: int) -> bytes:
    """Decompress a frame that says its content's size, as librdkafka's do, at once, and others, such as Java's, in
    pieces."""
    with suppress(zstandard.ZstdError):  # raised again below, unless there is only another frame behind it
        size = zstandard.frame_content_size(data)
        if size > limit:
            raise _too_large(limit)
        if size > 0:
            content: bytes = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
            return content
    return b"".join(pieces(ZSTD, data, limit))


def _zstd_pieces(data: Buffer) -> Iterator[bytes]:
    """Decompress one or more frames. Bytes behind the last one are refused."""
    rest = memoryview(data)
    decompressor = zstandard.ZstdDecompressor()
    try:
        while True:
            size = yield from _zstd_frame(rest, decompressor)
            rest = rest[size:]
            if not rest:
                return
    except zstandard.ZstdError as error:
        raise BadCompression(f"zstd: {error}") from None


def _zstd_frame(view: memoryview, decompressor: zstandard.ZstdDecompressor) -> Generator[bytes, None, int]:
    """Decompress a frame, some blocks at a time, as each holds 128 KiB at most (RFC 8878, 3.1.1.2.4). Return the size
    of the frame."""
    unpacker = decompressor.decompressobj()
    end = zstandard.frame_header_size(view)
    checksum_bytes = 4 if zstandard.get_frame_parameters(view).has_checksum else 0
    begin, is_last = 0, False
    while not is_last:
        for _ in range(ZSTD_BLOCKS_AT_ONCE):
            block = int.from_bytes(view[end : end + 3], "little")
            is_last = bool(block & 1)
            end += 3 + (1 if block >> 1 & 3 == ZSTD_RUN else block >> 3)
            if is_last:
                end += checksum_bytes
                break
        if end > len(view):
            raise BadCompression("zstd: the frame is cut off")
        yield unpacker.decompress(view[begin:end])
        begin = end
    return end


_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    GZIP: lambda data, limit: b"".join(pieces(GZIP, data, limit)),
    SNAPPY: lambda data, limit: b"".join(pieces(SNAPPY, data, limit)),
    ZSTD: _zstd_decompress,
}
