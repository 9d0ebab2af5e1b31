"""The process of a broker ends with one line and its own exit code, whatever the system refuses it."""

import asyncio
import threading

import pytest

from odradek.broker import process
from odradek.world.background import NO_FURTHER_THREAD


def refuse_to_start(_: threading.Thread) -> None:
    raise RuntimeError(NO_FURTHER_THREAD)


def test_a_start_for_which_there_is_no_thread_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def serving() -> int:
        raise RuntimeError(NO_FURTHER_THREAD)

    assert process._run(serving()) == 1
    assert capsys.readouterr().err == (
        "odradek broker: can't start new thread: the limit of threads is reached "
        "(ulimit -u, or pids.max of the container)\n"
    )


@pytest.mark.parametrize("code", [0, 1])
def test_a_broker_that_has_stopped_is_not_said_to_have_failed(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop wants one thread more to end the others."""

    async def serving() -> int:
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
        return code

    assert process._run(serving()) == code


def test_any_other_error_is_shown_with_its_stack() -> None:
    async def serving() -> int:
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        process._run(serving())
