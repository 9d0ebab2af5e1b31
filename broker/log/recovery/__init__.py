"""Recovery of logs when they are opened: unfinished changes are ended, and after an unclean stop batches validated."""
