"""Waiting: timers by the million, and operations that finish when something is touched or their time is up."""
