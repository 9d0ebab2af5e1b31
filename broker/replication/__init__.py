"""Replication: what a leader and a follower of a partition must do.

partition                one replica of one partition: roles, in-sync replicas, high watermark
progress                 how far each follower has come, as its leader sees it
replica_manager          all partitions of this broker, and how requests reach them
reading                  several partitions read within one fetch's limits
conversion               old message formats for readers that need them, batches for those that do not
delayed                  produce and fetch requests that wait
fetch_sessions           incremental fetch sessions (KIP-227)
fetcher                  what a follower asks one leader for next, and what it does with the answer
fetcher_manager          the tasks that carry those questions and answers
truncation               where a follower cuts its log after a change of leader
alter_partition_manager  leaders' changes of the ISR, on their way to the controller
controller_requests      LeaderAndIsr and StopReplica, applied
directory_moves          replicas that move to another log directory (KIP-113)
log_copy                 one of them
throttling               how fast replicas are copied (KIP-73)
"""
