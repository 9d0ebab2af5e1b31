"""Of each key the newest record stays: what is dirty is rewritten in a child process and swapped in."""
