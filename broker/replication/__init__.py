"""Replication: what a leader and a follower of a partition must do (FEATURES C10 to C12, C16).

partition   one replica of one partition: roles, in-sync replicas, high watermark
progress    how far each follower has come, as its leader sees it
truncation  where a follower cuts its log after a change of leader
following   what a follower asks one leader for next, and what it does with the answer
sessions    incremental fetch sessions (KIP-227)
delayed     produce and fetch requests that wait
control     LeaderAndIsr and StopReplica, applied
manager     all partitions of this broker
"""
