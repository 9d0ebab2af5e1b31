"""`python -m odradek.demo [--records N] [--rate N] [--chart FILE] [--svg FILE]`: the demonstration.

Imports nothing before Ctrl-C ends it quietly.
"""

import sys


def main() -> int:
    """Run the demonstration; return the exit code, 130 for Ctrl-C."""
    try:
        from odradek.demo.command import main as demonstrate

        return demonstrate()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
