"""Delayed operations and their deadlines.

purgatory       operations that finish when a key of theirs is touched, or when time is up
timing_wheel    very many timers, cheap to add and to cancel
"""
