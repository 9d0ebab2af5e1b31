"""Memory of this process, as the C library keeps it."""

from contextlib import suppress
from functools import cache

LARGEST_MAPPED_BYTES = (32 << 20) - (64 << 10)
"""Just below DEFAULT_MMAP_THRESHOLD_MAX, up to which glibc learns from what is freed."""


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
