"""`python -m odradek.broker FILE.properties [--override key=value]…`: one broker in the foreground."""

import gc
import sys

GC_THRESHOLDS = (2_000, 5, 250_000)
"""The broker makes few cycles of objects: full collections are rare, so that none shows in the latency. Each object is
looked at twice before it counts as old, whatever these numbers are. The second time ten thousand objects are looked at
in one piece, which takes some milliseconds."""


def main(argv: list[str] | None = None, origins: dict[str, str] | None = None) -> int:
    """Run a broker until it is told to stop; return the exit code, 130 for Ctrl-C before it can shut anything down.

    `origins` says, by the setting's name, where overrides come from if not from the command line.
    """
    try:
        # modules and classes are no garbage: looking for some among them takes a fifteenth of the start
        gc.disable()
        from odradek.broker.process import run

        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
        return run(argv, origins)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
