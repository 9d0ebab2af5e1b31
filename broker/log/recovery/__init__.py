"""Recovery of logs when they are opened: unfinished changes are ended, and after an unclean stop batches validated.

log_opening     opens a log: what its files say, and what must be repaired
interrupted     changes of the directory that a stop has cut short: taken back, or brought to their end
validation      every batch from some segment on, up to the first damage
parallel        child processes that repair, where there is much to validate
"""
