"""Kafka 0.8's consumer: its group is balanced in ZooKeeper, by the members themselves.

connector           the ConsumerConnector; core: the same on its loop; config: its settings
streams             what the application's threads read; fetch_loop: what fills them
consumption         which stream a partition goes to, and how far it is
member              one member at work; balance: its next step, pure
subscriptions       who wants which topics; assignment: who gets which partitions. Both pure
group_store         the group's znodes; groups: the same for somebody who is no member
offset_storage      committed offsets, in ZooKeeper, in Kafka, or in both
"""
