"""Recovery of logs when they are opened: unfinished changes are ended, and after an unclean stop batches validated.

log_opening     opens a log: ends the changes that a stop has interrupted, reads what its files say, has them repaired
validation      every batch from some segment on, up to the first damage
parallel        child processes that repair, where there is much to validate
"""
