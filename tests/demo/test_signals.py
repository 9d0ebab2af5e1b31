"""What ends the demonstration: a closed terminal, unless nohup has it go on."""

import os
import signal
from collections.abc import Iterator

import pytest

from odradek.demo.command import listen_to_signals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Leave the handlers of this process as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_after_nohup_a_closed_terminal_does_not_end_it() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    listen_to_signals()
    os.kill(os.getpid(), signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


def test_the_second_of_a_closed_terminals_signals_interrupts_no_clearing_up() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    listen_to_signals()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)
