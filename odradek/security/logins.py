"""Logins of clients, and the threads in which they wait for an issuer of tokens or tickets, or for the application's
provider of tokens.

The threads are for that alone, so that nothing else waits for an issuer that does not answer; and the program may end
before they do. None can be ended from outside: one whose login hangs is left to itself, and another takes its place.
"""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from odradek.security.errors import AuthenticationFailed

LOGINS_MAX: Final = 4
"""Logins that may wait at once; further ones wait for them."""
LOGIN_SECONDS: Final = 30.0
"""Time for a login. One that takes longer has failed, and does not count for LOGINS_MAX any more. It is not begun again
until it has returned: otherwise threads that hang would use up the memory."""


class SaslClient(Protocol):
    """An exchange with one broker."""

    mechanism: str
    complete: bool

    def first(self) -> bytes:
        """Return what the exchange begins with."""

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next message; None when there is none. Raises AuthenticationFailed."""


@dataclass(frozen=True, slots=True)
class Login:
    """Login of a client: makes an exchange for each connection. Making one may take a while: a token is fetched."""

    mechanism: str
    new: Callable[[str], SaslClient]
    """Makes the exchange with a broker at that host. Raises AuthenticationFailed, and OSError."""
    blocks: bool = False
    """True when making one waits for others, so that it must not be done on the loop."""

    def __repr__(self) -> str:
        return f"Login({self.mechanism})"


class _Attempt:
    """An attempt at a login, for whoever waits for it on a loop."""

    def __init__(self, login: Login, host: str) -> None:
        self.login, self._host = login, host
        self._loop = asyncio.get_running_loop()
        self.made: asyncio.Future[SaslClient] = self._loop.create_future()
        timer = self._loop.call_later(LOGIN_SECONDS, self._end, None, self.too_late())
        self.made.add_done_callback(lambda _: timer.cancel())
        self._began_s: float | None = None

    def begin(self) -> None:
        """Note that its time begins."""
        self._began_s = time.monotonic()

    @property
    def hangs(self) -> bool:
        return self._began_s is not None and time.monotonic() - self._began_s >= LOGIN_SECONDS

    def too_late(self) -> AuthenticationFailed:
        return AuthenticationFailed(f"{self.login.mechanism}: no token and no ticket within {LOGIN_SECONDS:g} s")

    def carry_out(self) -> None:
        """Make the exchange, which may take a while."""
        try:
            result, error = self.login.new(self._host), None
        except Exception as raised:  # noqa: BLE001 - raised where the result is waited for
            result, error = None, raised
        try:
            self._loop.call_soon_threadsafe(self._end, result, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _end(self, result: SaslClient | None, error: Exception | None) -> None:
        if self.made.done():
            return
        if result is None:
            self.made.set_exception(error or self.too_late())
        else:
            self.made.set_result(result)


class _Threads:
    """The logins of this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: in the child of a fork there are none of the threads."""
        self._lock = threading.Lock()
        self._waiting: deque[_Attempt] = deque()
        self._under_way: set[_Attempt] = set()

    def has_hanging(self, login: Login) -> bool:
        """Tell whether an earlier attempt of a login has not returned, and will not."""
        with self._lock:
            return any(one.login is login and one.hangs for one in self._under_way)

    def take(self, attempt: _Attempt) -> None:
        """Carry an attempt out as soon as there is a thread."""
        self._waiting.append(attempt)
        self._begin_some()

    def _begin_some(self) -> None:
        with self._lock:
            room = LOGINS_MAX - sum(not one.hangs for one in self._under_way)
            begun = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
            for attempt in begun:
                attempt.begin()
            self._under_way.update(begun)
        for attempt in begun:
            try:
                threading.Thread(target=self._run, args=(attempt,), name="login", daemon=True).start()
            except RuntimeError:  # the main thread has ended, and Python begins none
                self._run(attempt)

    def _run(self, attempt: _Attempt) -> None:
        try:
            if not attempt.made.cancelled():
                attempt.carry_out()
        finally:
            with self._lock:
                self._under_way.discard(attempt)
            self._begin_some()


_threads = _Threads()
os.register_at_fork(after_in_child=_threads.forget)


def in_thread(login: Login, host: str) -> asyncio.Future[SaslClient]:
    """Make an exchange in a thread. Raises what `login.new` does, and AuthenticationFailed when that takes too long."""
    attempt = _Attempt(login, host)
    if _threads.has_hanging(login):
        attempt.made.set_exception(attempt.too_late())
    else:
        _threads.take(attempt)
    return attempt.made
