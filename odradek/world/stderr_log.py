"""The log of a process goes to stderr, in one form for a broker and its children."""

import logging
import os


def log_to_stderr() -> None:
    """At INFO, or what `ODRADEK_LOG_LEVEL` says."""
    logging.basicConfig(
        level=os.environ.get("ODRADEK_LOG_LEVEL", "INFO"),
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
