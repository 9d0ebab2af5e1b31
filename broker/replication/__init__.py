"""Replication: partitions as leaders and as followers, in-sync replicas, high watermarks, fetching from leaders.

partition                a replica of a partition: roles, in-sync replicas, high watermark
isr                      the in-sync replicas as a controller tells them, progress of the followers, a change that waits
replica_manager          all partitions of this broker, appends, followers' fetches, requests that wait for replicas
fetch_reading            several partitions read within the limits of one Fetch
replica_selection        the replica nearest to a consumer (KIP-392)
fetch_sessions           incremental fetch sessions (KIP-227)
conversion               old message formats for readers that need them, batches for those that do not
fetcher                  what a follower asks a leader for, and what it does with the answer
fetcher_manager          the tasks that carry those questions and answers
truncation               where a follower truncates
alter_partition_manager  leaders' changes of the ISR, on their way to the controller
controller_requests      LeaderAndIsr, StopReplica and UpdateMetadata, applied
controller_fences        what is remembered of them, so that one that comes late changes nothing
directory_moves          replicas that move to another log directory (KIP-113); log_copy: the work of one
throttling               limits on how fast replicas are copied (KIP-73)
"""
