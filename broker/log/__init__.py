"""Kafka's storage. In the order to read it:

- log.py (one partition's log) with append.py, appending.py, rewriting.py, rolling.py (writing), reading.py, slices.py,
  listing.py (reading, and offsets by time), truncation.py, retention.py (letting go), flushing.py (to the disk)
- segment.py with index.py, index_check.py, transaction_index.py, batches.py: the files of a log
- leader_epochs.py, producers/, control.py: what a log knows beside its records
- recovery/: opening a log, and repairing it after an unclean stop
- compaction/: by key, in a child process
- manager.py and directories/: all logs of a broker, and the entries of `log.dirs` they are in
- dump/: looking into the files without a broker
"""
