"""ZooKeeper's own handshake, to know that one is ready: a session is asked for, got, and closed again."""

import asyncio
import struct

SESSION_TIMEOUT_MS = 4000
CLOSE_SESSION = -11
ANSWER_BYTES_MAX = 1024


async def is_ready(host: str, port: int, timeout_ms: float = 1000.0) -> bool:
    """Whether a ZooKeeper answers there and gives out sessions."""
    try:
        async with asyncio.timeout(timeout_ms / 1000.0):
            return await _shake_hands(host, port)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False


async def _shake_hands(host: str, port: int) -> bool:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        # protocol version, last zxid seen, timeout, session id, password, read only
        _send(writer, struct.pack(">iqiqi16s?", 0, 0, SESSION_TIMEOUT_MS, 0, 16, bytes(16), False))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        if not 16 <= size <= ANSWER_BYTES_MAX:
            return False
        _, granted_ms, session_id = struct.unpack_from(">iiq", await reader.readexactly(size))
        _send(writer, struct.pack(">ii", 1, CLOSE_SESSION))
        await reader.read(ANSWER_BYTES_MAX)
        return bool(granted_ms > 0 and session_id)
    finally:
        writer.close()


def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(struct.pack(">i", len(message)) + message)
