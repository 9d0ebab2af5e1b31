"""A forked child, for tests of what must not outlive a fork."""

import os
from collections.abc import Callable


def in_a_child(work: Callable[[], str]) -> str:
    """Run `work` in a child of `os.fork`, and return what it returns, or the error it ended with."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = work()
        except BaseException as error:  # noqa: BLE001 - the report is what it is for
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        report = pipe.read().decode()
    os.waitpid(child, 0)
    return report
