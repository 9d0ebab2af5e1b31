"""Recovery of logs when they are opened: unfinished changes are completed, and after an unclean stop batches validated.

log_opening             opens a log: reads what its files say, has them repaired
interrupted_changes     renamings and removals that a stop interrupted: completed or taken back
validation              every batch from some segment on, up to the first damage
parallel                child processes that repair, where there is much to validate
"""
