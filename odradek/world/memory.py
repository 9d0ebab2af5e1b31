"""Memory of this process: what the C library keeps of it, and what is done when there is no more."""

import logging
import os
import sys
import threading
from contextlib import suppress
from functools import cache
from typing import Any, Final

log = logging.getLogger(__name__)

LARGEST_MAPPED_BYTES = (32 << 20) - (64 << 10)
"""Just below DEFAULT_MMAP_THRESHOLD_MAX, up to which glibc learns from what is freed."""
RESERVE_BYTES: Final = 4 << 20
"""Reserve that is given back to log the end with. It comes from calloc(3), so no page of it is touched before."""
EXIT_CODE: Final = 1


@cache
def reuse_freed_memory() -> None:
    """Have glibc keep freed memory for what is allocated next, up to 64 MiB, instead of returning it to the system.

    It returns what is free at the end of its heap above 128 KiB, and every page of it costs a fault when it is needed
    again: seventeen thousand for a hundred thousand records of 1 kB that are sent, five thousand for as many that are
    read. Once a larger block has been freed that was mapped on its own, the limit is twice the size of that
    (mallopt(3), M_MMAP_THRESHOLD). Once in a process: what glibc has learnt it keeps. Without effect where another C
    library allocates.
    """
    with suppress(MemoryError):  # of a process whose address space is limited
        bytes(LARGEST_MAPPED_BYTES)  # of calloc(3): no page of it is touched, while a bytearray writes its zeros


def end_when_exhausted() -> None:
    """Have this process end at once, with one line, as soon as a MemoryError is logged, or has nowhere to go.

    Whoever meets an error that belongs to one connection or task logs it and goes on; without memory that fails next,
    and a process is left that holds its connections and does nothing. What was under way may be half done: nothing is
    shut down, as after a crash. Once in a process.
    """
    reserve = [bytes(RESERVE_BYTES)]
    make_record, unraisable, uncaught = logging.getLogRecordFactory(), sys.unraisablehook, threading.excepthook

    def look_at(error: BaseException | None) -> None:
        if reserve and isinstance(error, MemoryError):
            reserve.clear()
            try:
                log.critical("there is no memory left: this process ends", exc_info=error)
            finally:
                os._exit(EXIT_CODE)

    def record(name: str, level: int, path: str, line: int, message: object, of: Any, error: Any, *more: Any) -> Any:
        look_at(error[1] if error else None)
        return make_record(name, level, path, line, message, of, error, *more)

    def nowhere_to_go(found: Any) -> None:
        look_at(found.exc_value)
        unraisable(found)

    def end_of_a_thread(found: Any) -> None:
        look_at(found.exc_value)
        uncaught(found)

    logging.setLogRecordFactory(record)
    sys.unraisablehook, threading.excepthook = nowhere_to_go, end_of_a_thread
