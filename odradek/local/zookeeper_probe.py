"""ZooKeeper's own handshake, to know that one is ready: a session is asked for, got, and closed again."""

import asyncio
import enum
import struct

SESSION_TIMEOUT_MS = 4000
CLOSE_SESSION = -11
ANSWER_BYTES_MAX = 1024


class Readiness(enum.Enum):
    """Outcome of asking for a session."""

    READY = "sessions are given out"
    ABSENT = "nobody listens there, or what listens is no ZooKeeper that serves"
    SILENT = "the connection was accepted, and nothing came back in time"


async def ask_for_session(host: str, port: int, timeout_ms: float = 1000.0) -> Readiness:
    """Ask a ZooKeeper for a session and close that again; give up after `timeout_ms`."""
    connected = False
    try:
        async with asyncio.timeout(timeout_ms / 1000.0):
            reader, writer = await asyncio.open_connection(host, port)
            connected = True
            return Readiness.READY if await _shake_hands(reader, writer) else Readiness.ABSENT
    except TimeoutError:
        return Readiness.SILENT if connected else Readiness.ABSENT
    except (OSError, asyncio.IncompleteReadError):
        return Readiness.ABSENT


async def _shake_hands(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
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
