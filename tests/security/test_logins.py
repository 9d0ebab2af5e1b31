"""Logins that wait for somebody else, in threads for that alone."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from odradek.security import logins
from odradek.security.errors import AuthenticationFailed
from odradek.security.logins import LOGINS_MAX, Login, in_thread
from odradek.security.sasl_client import BearerClient
from odradek.testing.patience import PATIENCE_SECONDS


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What makes an exchange when the fixture ends, and not before."""
    monkeypatch.setattr(logins, "LOGIN_SECONDS", 0.2)
    go_on = threading.Event()

    def new(host: str) -> BearerClient:
        assert go_on.wait(PATIENCE_SECONDS)
        return BearerClient("late")

    yield new
    go_on.set()


def bearer(new: Any) -> Login:
    return Login("OAUTHBEARER", new, blocks=True)


def test_logins_that_hang_fail_and_keep_nobody_elses_thread(hanging: Any) -> None:
    """Four of them held all threads of the process for ever: no other client could log in any more."""

    async def main() -> None:
        every = [in_thread(bearer(hanging), "broker") for _ in range(LOGINS_MAX)]
        for outcome in await asyncio.gather(*every, return_exceptions=True):
            assert isinstance(outcome, AuthenticationFailed)
            assert str(outcome) == "OAUTHBEARER: no token and no ticket within 0.2 s"
        other = await in_thread(bearer(lambda host: BearerClient("token")), "broker")
        assert other.first() == b"n,,\x01auth=Bearer token\x01\x01"

    asyncio.run(main())


def test_a_login_that_hangs_is_begun_no_second_time(hanging: Any) -> None:
    asked = []

    def new(host: str) -> BearerClient:
        asked.append(host)
        client: BearerClient = hanging(host)
        return client

    async def main() -> None:
        login = bearer(new)
        for _ in range(3):
            with pytest.raises(AuthenticationFailed, match=r"within 0\.2 s"):
                await in_thread(login, "broker")
        assert asked == ["broker"]

    asyncio.run(main())


def test_no_more_than_some_wait_at_once() -> None:
    waiting, go_on = threading.Semaphore(0), threading.Event()
    inside: set[str] = set()
    at_once: list[int] = []

    def new(host: str) -> BearerClient:
        inside.add(host)
        waiting.release()
        assert go_on.wait(PATIENCE_SECONDS)
        at_once.append(len(inside))
        inside.remove(host)
        return BearerClient(host)

    async def main() -> None:
        every = [in_thread(bearer(new), str(number)) for number in range(2 * LOGINS_MAX)]
        every[-1].cancel()  # nobody waits for it any more: it is not begun
        for _ in range(LOGINS_MAX):
            assert waiting.acquire(timeout=PATIENCE_SECONDS)
        go_on.set()
        await asyncio.gather(*every[:-1])

    asyncio.run(main())
    assert len(at_once) == 2 * LOGINS_MAX - 1 and max(at_once) == LOGINS_MAX


def test_a_program_ends_while_a_login_hangs() -> None:
    """Python waited for the thread, and so for ever."""
    program = """
import asyncio, threading
from odradek.security.logins import Login, in_thread

begun = threading.Event()

def new(host):
    begun.set()
    threading.Event().wait()

async def main():
    in_thread(Login("OAUTHBEARER", new, blocks=True), "broker")
    begun.wait()

asyncio.run(main())
print("the end")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
    assert done.stdout == "the end\n"
