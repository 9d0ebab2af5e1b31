"""How long a test waits for what must happen. Nothing is measured by it: it is for a program that hangs."""

PATIENCE_SECONDS = 150.0
"""A machine with two processors that runs the whole suite may need ten times as long as for one test alone."""
