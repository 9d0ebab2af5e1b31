"""The shells around the rules: asyncio tasks that carry requests between brokers and watch ZooKeeper."""
