"""Tests of one process do not hear each other: see the fixtures of conftest.py."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

LOGGER = logging.getLogger("odradek.of.another.test")


@pytest.fixture
def another_test() -> Iterator[Callable[[], None]]:
    """Have a thread that runs already log a line; return when it has."""
    asked, done = threading.Event(), threading.Event()

    def run() -> None:
        asked.wait()
        LOGGER.error("of the other")
        done.set()

    thread = threading.Thread(target=run)
    thread.start()

    def log() -> None:
        asked.set()
        done.wait()

    yield log
    asked.set()
    thread.join()


def test_lines_of_threads_that_ran_before_are_not_heard(
    another_test: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    another_test()
    LOGGER.error("own")
    began_here = threading.Thread(target=lambda: LOGGER.error("of a thread of this test"))
    began_here.start()
    began_here.join()
    assert [record.getMessage() for record in caplog.records] == ["own", "of a thread of this test"]
