"""TLS over any endpoint: an endpoint itself, so that whoever reads and writes need not know of it.

OpenSSL works between two buffers in memory, and one call of the transport carries many records: a socket of Python's
own `ssl` makes two calls for each record of 16 KB that comes in. It also works on a network of a test.
"""

import errno
import ssl
from collections.abc import Callable
from contextlib import suppress

from odradek.security.errors import AuthenticationFailed
from odradek.world.clock import Clock
from odradek.world.files import Buffer, File
from odradek.world.network import Endpoint

CHUNK_BYTES = 1 << 17
"""Size of what is encrypted and sent in one go."""
STAGING_BYTES = 1 << 17
"""Ciphertext that is taken from the transport in one call."""
OWN_BYTES_MAX = 1 << 16
"""TLS's own answers (to key updates, say) that may wait for a peer that does not read."""

NOT_ACCEPTED = "the other side does not accept our certificate"
MEANINGS = {
    "UNKNOWN_CA": NOT_ACCEPTED,
    "CERTIFICATE_UNKNOWN": NOT_ACCEPTED,
    "BAD_CERTIFICATE": NOT_ACCEPTED,
    "CERTIFICATE_EXPIRED": NOT_ACCEPTED,
    "CERTIFICATE_REQUIRED": "the other side wants a certificate of us",
    "WRONG_VERSION_NUMBER": "the other side does not speak TLS here",
    "UNEXPECTED_EOF_WHILE_READING": "the other side closed the connection; it may not speak TLS here",
}
"""Explanations by OpenSSL's reason, or by the name of the alert that the other side has sent."""


class TlsEndpoint:
    """An end of a TLS connection over `endpoint`, from the handshake on.

    A call of `send` or `send_file` that raised BlockingIOError is to be repeated with the same bytes in front: some of
    them may be encrypted already. `established` is called once, from within the call that ends the handshake, and may
    raise AuthenticationFailed. Until then `receive_into` and `send` raise BlockingIOError, and AuthenticationFailed
    when the handshake fails.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        context: ssl.SSLContext,
        clock: Clock,
        staging: memoryview,
        *,
        server_side: bool,
        server_name: str | None = None,
        established: Callable[[ssl.SSLObject], object] = lambda tls: None,
    ) -> None:
        """`staging`: a buffer that all endpoints of one loop share. `server_name`: whom the client means to reach."""
        self.peer = endpoint.peer
        self._endpoint = endpoint
        self._clock = clock
        self._staging = staging
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_name
        )
        self._established: Callable[[ssl.SSLObject], object] | None = established
        self._failure: OSError | None = None
        self._drained = True
        """True when TLS has nothing more to give of what has come in."""
        self._ciphertext = memoryview(b"")
        """Ciphertext that the transport has not taken yet."""
        self._encrypted_bytes = 0
        """Plaintext of the call that `send` could not finish."""
        self._readable: Callable[[], object] | None = None
        self._writable: Callable[[], object] | None = None
        self._watching = self._watching_room = self._waking = False
        self._closed = False

    # handshake

    def shake_hands(self) -> bool:
        """Go on with the handshake as far as the bytes that are there allow. True when it is done.

        Raises AuthenticationFailed, and OSError when the connection broke.
        """
        if self._established is None:
            return True
        if self._failure is not None:
            raise self._failure
        ended = False
        while True:
            try:
                self._tls.do_handshake()
                self._has_shaken()
            except ssl.SSLWantReadError:
                self._send_own()
                if ended:
                    self._failure = ConnectionResetError(errno.ECONNRESET, "closed during the TLS handshake")
                    raise self._failure from None
            except (ssl.SSLError, AuthenticationFailed) as error:
                raise self._handshake_failed(error) from error
            else:
                self._send_own()
                self._drained = False  # the first request may have come with the end of the handshake
                return True
            try:
                ended = not self._fill()
            except BlockingIOError:
                return False

    def _has_shaken(self) -> None:
        established, self._established = self._established, None
        assert established is not None, "a second handshake"
        established(self._tls)

    def _handshake_failed(self, error: OSError) -> OSError:
        with suppress(OSError):  # the peer may be gone, and what went wrong before matters
            self._send_own()  # the alert
        if isinstance(error, ssl.SSLError):
            self._failure = AuthenticationFailed(f"TLS handshake failed: {in_words(error)}")
        else:
            self._failure = error
        return self._failure

    # an endpoint's methods

    def receive_into(self, buffer: memoryview, /) -> int:
        if self._established is not None and not self.shake_hands():
            raise BlockingIOError(errno.EAGAIN, "the TLS handshake is under way")
        received, size = 0, len(buffer)
        if self._drained:
            self._fill()
            self._drained = False
        while received < size:
            try:
                some = self._tls.read(size - received, buffer[received:])
            except ssl.SSLWantReadError:
                self._drained = True
                if received:
                    break
                if self._outgoing.pending:
                    self._send_own()
                self._fill()
                self._drained = False
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break
            except ssl.SSLError as error:  # a server of TLS 1.3 refuses a certificate when the client is done
                raise ssl.SSLError(error.errno, f"TLS failed: {in_words(error)}") from error
            else:
                if not some:
                    break
                received += some  # type: ignore[operator]
                if not (self._incoming.pending or self._tls.pending()):  # spares a read that only raises
                    self._drained = True
                    break
        if self._drained:
            if self._outgoing.pending:
                self._send_own()
        else:
            self._wake_soon()
        return received

    def send(self, data: Buffer, *, more: bool = False) -> int:
        if self._established is not None and not self.shake_hands():
            raise BlockingIOError(errno.EAGAIN, "the TLS handshake is under way")
        self._flush(more)
        if self._encrypted_bytes:
            sent, self._encrypted_bytes = self._encrypted_bytes, 0
            return sent
        return self._encrypt(memoryview(data)[:CHUNK_BYTES], more)

    def send_file(self, file: File, position: int, length: int) -> int:
        self._flush(True)
        if self._encrypted_bytes:
            sent, self._encrypted_bytes = self._encrypted_bytes, 0
            return sent
        data = file.pread(min(length, CHUNK_BYTES), position)
        if not data:
            raise OSError(errno.ENODATA, f"no byte at {position}, {length} were promised", file.path)
        return self._encrypt(data, False)

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        self._readable = callback
        watching = callback is not None
        if watching != self._watching:
            self._watching = watching
            self._endpoint.on_readable(self._on_readable if watching else None)
        if watching and not self._drained:
            self._wake_soon()

    def wake_at(self, count: int) -> None:
        """Do nothing: nobody knows how many bytes of ciphertext that is."""

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        self._writable = callback
        self._watch_room()

    def close(self, *, abandon: bool = False) -> None:
        if self._closed:
            return
        self._closed = True
        self._readable = self._writable = None
        if self._established is None and not self._ciphertext:
            self._say_goodbye()
        self._endpoint.close(abandon=abandon)

    # between TLS and the transport

    def _say_goodbye(self) -> None:
        with suppress(OSError):  # it wants the peer's goodbye, for which nobody waits
            self._tls.unwrap()
        with suppress(OSError):  # the peer may be gone
            self._send_own()

    def _fill(self) -> int:
        """Take ciphertext from the transport; 0 at its end, which the next read tells. Raises BlockingIOError."""
        size = self._endpoint.receive_into(self._staging)
        if size:
            self._incoming.write(self._staging[:size])
        else:
            self._incoming.write_eof()
        return size

    def _encrypt(self, data: Buffer, more: bool) -> int:
        size: int = self._tls.write(data)
        self._ciphertext = memoryview(self._outgoing.read())
        try:
            self._flush(more)
        except BlockingIOError:
            self._encrypted_bytes = size
            raise
        return size

    def _flush(self, more: bool) -> None:
        """Send everything encrypted to the transport. Raises BlockingIOError when it does not take all."""
        while self._ciphertext:
            self._ciphertext = self._ciphertext[self._endpoint.send(self._ciphertext, more=more) :]

    def _send_own(self) -> None:
        """Send what TLS itself has to say: now, or as soon as there is room."""
        if self._outgoing.pending:
            self._ciphertext = memoryview(bytes(self._ciphertext) + self._outgoing.read())
            if not self._encrypted_bytes and len(self._ciphertext) > OWN_BYTES_MAX:
                raise OSError(errno.ENOBUFS, "the peer makes TLS answer and does not read the answers")
        try:
            self._flush(False)
        except BlockingIOError:
            self._watch_room()

    def _watch_room(self) -> None:
        wanted = self._writable is not None or (bool(self._ciphertext) and not self._encrypted_bytes)
        if wanted != self._watching_room and not self._closed:
            self._watching_room = wanted
            self._endpoint.on_writable(self._on_writable if wanted else None)

    def _on_writable(self) -> None:
        try:
            self._flush(False)
        except BlockingIOError:
            return
        except OSError:
            self._ciphertext = memoryview(b"")  # the transport says so to whoever reads
        self._watch_room()
        if self._writable is not None:
            self._writable()

    def _on_readable(self) -> None:
        if self._readable is not None:
            self._readable()

    def _wake_soon(self) -> None:
        """Wake the owner soon: there is more inside, of which the transport says nothing."""
        if not self._waking:
            self._waking = True
            self._clock.call_soon(self._wake)

    def _wake(self) -> None:
        self._waking = False
        if not self._drained and self._readable is not None:
            self._readable()


def new_staging() -> memoryview:
    """Make a buffer for the endpoints of one loop."""
    return memoryview(bytearray(STAGING_BYTES))


def in_words(error: ssl.SSLError) -> str:
    """Return what OpenSSL says, without its source lines, and what it means where that takes knowing TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    meaning = MEANINGS.get(reason.rpartition("ALERT_")[2])
    return reason.replace("_", " ").lower() + (f" ({meaning})" if meaning else "")
