"""Codecs: round trips, what other programs write, damage, bombs."""

import contextlib
import gzip
import random
import tracemalloc

import kafka.codec
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol import compression
from odradek.protocol.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    SNAPPY_BLOCK_BYTES,
    XERIAL_HEADER,
    ZSTD,
    BadCompression,
    DecompressesTooLarge,
    compress,
    decompress,
    decompress_in_steps,
    pieces,
)
from odradek.protocol.lz4_frame import HEADER_CHECKSUM_BYTE, repair_header_checksum
from odradek.protocol.steps import at_once

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
REAL_CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
MEGABYTE = 1024 * 1024
PLAIN = random.Random(7).randbytes(40_000) + b"spool of thread " * 5000

KAFKA_PYTHON_ENCODE = {
    GZIP: kafka.codec.gzip_encode,
    SNAPPY: kafka.codec.snappy_encode,
    LZ4: kafka.codec.lz4_encode,
    ZSTD: kafka.codec.zstd_encode,
}
KAFKA_PYTHON_DECODE = {
    GZIP: kafka.codec.gzip_decode,
    SNAPPY: kafka.codec.snappy_decode,
    LZ4: kafka.codec.lz4_decode,
    ZSTD: kafka.codec.zstd_decode,
}


@settings(max_examples=30)
@given(st.sampled_from(CODECS), st.binary(max_size=3000), st.integers(1, 60))
def test_round_trip(codec: int, data: bytes, times: int) -> None:
    assert decompress(codec, memoryview(compress(codec, bytearray(data * times)))) == data * times


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_another_client_reads_ours_and_we_read_its(codec: int) -> None:
    assert bytes(KAFKA_PYTHON_DECODE[codec](compress(codec, PLAIN))) == PLAIN
    assert decompress(codec, KAFKA_PYTHON_ENCODE[codec](PLAIN)) == PLAIN


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("level", [1, 9])
def test_levels(codec: int, level: int) -> None:
    assert decompress(codec, compress(codec, PLAIN, level=level)) == PLAIN


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_the_most_that_comes_out(codec: int) -> None:
    packed = compress(codec, PLAIN)
    assert decompress(codec, packed, len(PLAIN)) == PLAIN
    with pytest.raises(BadCompression):
        decompress(codec, packed, len(PLAIN) - 1)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_bomb_is_refused(codec: int) -> None:
    bomb = compress(codec, bytes(8 * MEGABYTE))
    with pytest.raises(BadCompression):
        decompress(codec, bomb, MEGABYTE)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_bomb_of_gigabytes_stays_within_the_limit(codec: int) -> None:
    """What is in memory does not follow what a few bytes pretend to be."""
    bomb = BOMBS[codec]()
    tracemalloc.start()
    try:
        with pytest.raises(BadCompression):
            at_once(decompress_in_steps(codec, bomb, 4 * MEGABYTE))
        assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE + 4 * len(bomb)
        tracemalloc.reset_peak()
        taken = 0
        with contextlib.suppress(BadCompression):
            for piece in pieces(codec, bomb, 16 * MEGABYTE):
                taken += len(piece)
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE + 4 * len(bomb), "of pieces that are not kept"
        assert taken == (0 if codec == SNAPPY else 16 * MEGABYTE), "a block of snappy says before how much it holds"
    finally:
        tracemalloc.stop()


def zstd_bomb() -> bytes:
    """Make a frame of runs of 128 KiB in four bytes each, two gigabytes of them."""
    header = b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x38"  # no size, a window of 128 KiB
    run = ((MEGABYTE // 8) << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    last = ((MEGABYTE // 8) << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"x"
    return header + run * 16_383 + last


BOMBS = {
    GZIP: lambda: gzip.compress(bytes(17 * MEGABYTE), 1),
    SNAPPY: lambda: b"\x80\x80\x80\x80\x08" + b"\xfe\x01\x00" * 1000,
    LZ4: lambda: compress(LZ4, bytes(17 * MEGABYTE)),
    ZSTD: zstd_bomb,
}


@pytest.mark.parametrize("codec", CODECS)
def test_pieces_are_small_and_make_up_the_whole(codec: int) -> None:
    plain = PLAIN * 40
    packed = compress(codec, plain)
    some = list(pieces(codec, memoryview(packed)))
    assert b"".join(some) == plain == at_once(decompress_in_steps(codec, packed, len(plain)))
    assert codec == NONE or max(map(len, some)) <= MEGABYTE + SNAPPY_BLOCK_BYTES
    with pytest.raises(DecompressesTooLarge):
        at_once(decompress_in_steps(codec, packed, len(plain) - 1))


@pytest.mark.parametrize("says_size", [True, False])
@pytest.mark.parametrize("has_checksum", [True, False])
def test_frames_of_zstd_in_pieces(says_size: bool, has_checksum: bool) -> None:
    packer = zstandard.ZstdCompressor(write_content_size=says_size, write_checksum=has_checksum)
    for plain in (b"", b"x", PLAIN * 20, bytes(3 * MEGABYTE)):
        packed = packer.compress(plain)
        assert b"".join(pieces(ZSTD, packed)) == plain
        for damaged in (packed[:-1], packed + b"\0"):
            with pytest.raises(BadCompression):
                list(pieces(ZSTD, damaged))


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_cut_stream_is_refused(codec: int) -> None:
    packed = compress(codec, PLAIN)
    for length in [*range(1, 12), len(packed) // 2, len(packed) - 1]:
        with pytest.raises(BadCompression):
            decompress(codec, packed[:length])
        with pytest.raises(BadCompression):
            list(pieces(codec, packed[:length]))


@settings(max_examples=150)
@given(st.sampled_from(REAL_CODECS), st.data())
def test_damage_raises_nothing_but_bad_compression(codec: int, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"spool of thread " * 40))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadCompression):
        assert len(decompress(codec, packed, MEGABYTE)) <= MEGABYTE
    with contextlib.suppress(BadCompression):
        assert sum(map(len, pieces(codec, packed, MEGABYTE))) <= MEGABYTE


@settings(max_examples=100)
@given(st.integers(0, 7), st.binary(max_size=60))
def test_any_bytes_raise_nothing_but_bad_compression(codec: int, data: bytes) -> None:
    for way in (decompress, lambda *asked: list(pieces(*asked))):
        with contextlib.suppress(BadCompression):
            way(codec, data, 1000)


def test_unknown_codecs_are_refused() -> None:
    for codec in (5, 6, 7):
        with pytest.raises(compression.UnknownCodec):
            decompress(codec, b"")
        with pytest.raises(compression.UnknownCodec):
            compress(codec, b"")


def test_names() -> None:
    assert [compression.codec_number(name) for name in compression.CODEC_NAMES] == CODECS
    assert compression.codec_number("uncompressed") == NONE
    with pytest.raises(KeyError):
        compression.codec_number("brotli")


def test_gzip_of_several_members() -> None:
    assert decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    with pytest.raises(BadCompression):
        decompress(GZIP, gzip.compress(b"") * (compression.MAX_GZIP_MEMBERS + 1))
    with pytest.raises(BadCompression):
        decompress(GZIP, gzip.compress(b"one") + b"junk")


def test_a_pause_is_made_in_snappy_blocks_with_nothing_in_them() -> None:
    """A megabyte of these held a broker's loop for seconds."""
    empty = (1).to_bytes(4, "big") + b"\0"
    for packed in (XERIAL_HEADER + empty * 10_000, XERIAL_HEADER * 10_000):
        assert len(list(pieces(SNAPPY, packed))) > 10
        assert decompress(SNAPPY, packed) == b""


def test_snappy_raw_and_framed() -> None:
    assert decompress(SNAPPY, snappy.compress(PLAIN)) == PLAIN
    framed = compress(SNAPPY, PLAIN)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert decompress(SNAPPY, framed + compress(SNAPPY, b"more")) == PLAIN + b"more"


def test_a_snappy_length_that_cannot_be_true_is_refused() -> None:
    with pytest.raises(BadCompression, match="cannot hold"):
        decompress(SNAPPY, b"\xff\xff\xff\x07" + b"\x00" * 20)


def test_lz4_frame_is_one_that_java_reads() -> None:
    frame = compress(LZ4, PLAIN)
    info = lz4.frame.get_frame_info(frame)
    assert not info["block_linked"] and not info["content_checksum"] and info["block_size"] == 64 * 1024
    assert info["content_size"] == 0


def test_lz4_with_the_old_checksum() -> None:
    frame = compress(LZ4, PLAIN)
    broken = compress(LZ4, PLAIN, broken_lz4_checksum=True)
    assert broken != frame and broken[HEADER_CHECKSUM_BYTE + 1 :] == frame[HEADER_CHECKSUM_BYTE + 1 :]
    with pytest.raises(BadCompression):
        decompress(LZ4, broken)
    assert decompress(LZ4, broken, lenient_lz4=True) == PLAIN
    assert decompress(LZ4, frame, lenient_lz4=True) == PLAIN


def test_the_old_lz4_checksum_is_the_one_of_old_clients() -> None:
    """The header `04 22 4d 18 60 40` gets 0x1a when the magic is summed too, and 0x82 when it is not."""
    assert compress(LZ4, b"x", broken_lz4_checksum=True)[:7] == bytes.fromhex("04224d1860401a")
    assert compress(LZ4, b"x")[:7] == bytes.fromhex("04224d18604082")


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("block_size", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB])
def test_our_header_checksum_is_lz4s(store_size: bool, block_size: int) -> None:
    frame = lz4.frame.compress(PLAIN, store_size=store_size, block_size=block_size)
    at = HEADER_CHECKSUM_BYTE + (8 if store_size else 0)
    damaged = frame[:at] + bytes((frame[at] ^ 0x55,)) + frame[at + 1 :]
    assert repair_header_checksum(damaged) == frame


def test_zstd_without_content_size_as_java_writes() -> None:
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = packer.compress(PLAIN) + packer.flush()
    assert zstandard.frame_content_size(packed) == -1
    assert decompress(ZSTD, packed) == PLAIN


@pytest.mark.parametrize("says_size", [True, False])
def test_zstd_with_something_behind_it_is_refused(says_size: bool) -> None:
    packer = zstandard.ZstdCompressor(write_content_size=says_size)
    with pytest.raises(BadCompression):
        decompress(ZSTD, packer.compress(PLAIN) + b"junk")


@pytest.mark.parametrize("says_size", [True, False])
def test_frames_of_zstd_one_behind_the_other(says_size: bool) -> None:
    """Java's streams read them all; of those that say no size only the first one was read, and no error told it."""
    packer = zstandard.ZstdCompressor(write_content_size=says_size)
    plain = [PLAIN, b"", b"x"]
    packed = b"".join(map(packer.compress, plain))
    assert decompress(ZSTD, packed) == b"".join(plain) == b"".join(pieces(ZSTD, packed))
    with pytest.raises(DecompressesTooLarge):
        decompress(ZSTD, packed, len(PLAIN))
