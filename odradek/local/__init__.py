"""A whole cluster on this machine: ZooKeeper from the jars of the pyspark wheel, and brokers, each its own process.

cluster             what `odradek up` starts, watches and stops; report: how it tells of it
zookeeper           the ZooKeeper, and when it is ready; java: what runs it
broker_files        the brokers' properties; secure: keys and users too (secure_container: in containers)
processes, ports    child processes and ports of this machine
view                who is registered, as ZooKeeper says
in_hand             what the console does to brokers; relay: a way that can be cut
"""
