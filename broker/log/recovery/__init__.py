"""Opening a log: unfinished changes are brought to their end, and after an unclean stop every batch is validated."""
