"""Compaction by key, of which the newest record stays: what is dirty is rewritten in a child process and swapped in."""
