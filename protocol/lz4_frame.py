"""The checksum in the header of an lz4 frame, right and as old clients of Kafka compute it (KAFKA-3160).

Clients of 0.8 and 0.9 include the frame's magic number in the checksum. Message sets of magic 0 keep this mistake:
readers do not check it there, and writers write it wrong, so that those clients accept it.
"""

from typing import Final

from odradek.protocol.primitives import Buffer

_MASK: Final = 0xFFFF_FFFF
_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393

MAGIC_BYTES: Final = 4
CONTENT_SIZE_FLAG: Final = 0x08
HEADER_CHECKSUM_BYTE: Final = 6
"""Position of the header's checksum in a frame without content size."""


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


def xxh32_short(data: bytes) -> int:
    """Return xxHash32 (seed 0) of fewer than 16 bytes; the header of a frame never has more."""
    assert len(data) < 16, len(data)
    total = (_PRIME_5 + len(data)) & _MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        total = _rotate((total + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[whole:]:
        total = _rotate((total + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    total = (total ^ (total >> 15)) * _PRIME_2 & _MASK
    total = (total ^ (total >> 13)) * _PRIME_3 & _MASK
    return total ^ (total >> 16)


def break_header_checksum(frame: bytes) -> bytes:
    """Return the frame, which must have no content size, with the checksum that old clients compute."""
    assert not frame[MAGIC_BYTES] & CONTENT_SIZE_FLAG, frame[:8]
    wrong = (xxh32_short(frame[:HEADER_CHECKSUM_BYTE]) >> 8) & 0xFF
    return frame[:HEADER_CHECKSUM_BYTE] + bytes((wrong,)) + frame[HEADER_CHECKSUM_BYTE + 1 :]


def repair_header_checksum(frame: Buffer) -> bytes:
    """Return the frame with the right checksum in its header; one that is too short for it is returned as it is."""
    content = bytearray(frame)
    if len(content) <= MAGIC_BYTES:
        return bytes(content)
    at = HEADER_CHECKSUM_BYTE + (8 if content[MAGIC_BYTES] & CONTENT_SIZE_FLAG else 0)
    if at < len(content):
        content[at] = (xxh32_short(bytes(content[MAGIC_BYTES:at])) >> 8) & 0xFF
    return bytes(content)
