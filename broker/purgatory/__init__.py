"""The purgatory: delayed operations, which finish when a key is touched or time is up, and a wheel of timers."""
