"""A whole cluster on this machine: ZooKeeper from the jars of the pyspark wheel, and brokers, each its own process."""
