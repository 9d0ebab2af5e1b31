"""Kafka 0.8's consumer: its group is balanced in ZooKeeper, by the members themselves."""
