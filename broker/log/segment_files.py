"""How the files of a segment are called: its base offset in twenty digits, and what is in it."""

LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
"""Of what belongs to a segment; a snapshot of the producers belongs to the offset alone."""
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"
"""Of files that wait for their removal, and of a compacted segment before and while it takes its place."""


def file_name(offset: int, suffix: str) -> str:
    """`00000000000000000042.log`."""
    return f"{offset:020d}{suffix}"
