"""Odradek: Apache Kafka's ZooKeeper-era cluster in Python."""
