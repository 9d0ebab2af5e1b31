"""Kafka 0.8's consumer: its group is balanced in ZooKeeper, by the members themselves.

connector           the ConsumerConnector; core: its part on the event loop; config: its settings
streams             what the application's threads read; fetch_loop: what fills them
consumption         which stream each partition goes to, and how far it is consumed
member              carries out a member's steps; balance: which step is next, without I/O
listener            tells the application of rebalances
subscriptions       who wants which topics; assignment: who gets which partitions. Both without I/O
group_store         the group's znodes as a member uses them; groups: a group as seen from outside
offset_storage      committed offsets, in ZooKeeper, in Kafka, or in both
"""
