"""Clients of brokers (producer, consumer and admin, blocking or on asyncio; Spark's source and sink), of groups
in ZooKeeper (zookeeper), and those that Kafka had first (original).

What all share, from the bottom: connection.py (one connection, pipelined), cluster.py (connections by broker, metadata,
coordinators), calls.py and offsets.py (requests that are repeated until the right broker has answered), metadata.py
(what is known of the cluster), blocking.py and loop_thread.py (the loop behind methods that block), config.py,
arguments.py, errors.py and records.py (what applications hand in and get back), waiting.py (pauses), sensors.py and
metrics.py (what is counted), forks.py (a process that forks). Upon these stand aio/ (the clients), producer/, consumer/
and admin/ (what they are made of, and their blocking forms) and spark/.
"""
