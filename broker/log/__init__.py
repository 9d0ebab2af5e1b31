"""Kafka's storage: the logs of partitions in the directories of `log.dirs`. In the order to read it:

- log.py: the log of one partition; appending, truncating. It extends local_log.py: its segments, reading, flushing
  (flush.py)
- batches.py: headers of batches; segment.py with index.py, transaction_index.py: the files of a log
- log_environment.py: the outside as logs know it, and the old segments that are kept open
- rewriting.py: what a batch must be in some topics, and what becomes of it
- producer_state.py, producer_entry.py, producer_sequences.py, verifications.py, producer_snapshots.py,
  producer_recovery.py, leader_epochs.py: what a log knows beside its records; checkpoint_format.py: the text of its
  small files
- retention.py: which old segments go; offset_lookup.py: offsets by time; time_index_check.py: false entries
- recovery/: opening a log, and repairing it after an unclean stop
- compaction/: only the newest record of each key stays; in a child process
- log_manager.py and directories/: all logs of a broker, and the entries of `log.dirs` they are in
- errors.py: trouble with a disk
- dump/: looking into the files without a broker
"""
