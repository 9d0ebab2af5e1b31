"""`python -m odradek.broker FILE.properties [--override key=value]…`: one broker in the foreground."""

import gc
import sys

GC_THRESHOLDS = (2_000, 5, 250_000)
"""The loop makes few cycles: full collections are rare, so that none shows in the latency. Each object is looked at
twice before it is old, however many are looked at in one piece; ten thousand are, which takes some milliseconds."""


def main(argv: list[str] | None = None, origins: dict[str, str] | None = None) -> int:
    """Run a broker until it is told to stop; return the exit code, 130 for Ctrl-C before it can shut anything down.

    `origins`: where overrides are from, by the setting's name, where that is no command line.
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
