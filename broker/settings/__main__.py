"""`python -m odradek.broker.settings > docs/settings.md`"""

import sys

from odradek.broker.settings.settings_page import render

if __name__ == "__main__":
    sys.stdout.write(render())
