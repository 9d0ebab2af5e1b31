"""Clients of a Kafka cluster.

    aio/                            producer, consumer and admin client, on asyncio
    producer/ consumer/ admin/      what these are made of, and their blocking forms
    spark/                          Spark's source and sink
    zookeeper/                      Kafka 0.8's consumer, whose groups are kept in ZooKeeper
    original/                       Kafka's first clients: the Producer and SimpleConsumer of 0.7 and 0.8

They share these modules, from the bottom up:

    connection.py                   one connection, with pipelined requests
    needed_versions.py              what is not asked of old brokers, nor believed
    metadata.py                     what is known of the cluster
    cluster.py                      connections by broker, metadata, coordinators
    calls.py, offsets.py            requests that are repeated until the right broker has answered
    blocking.py, loop_thread.py     the event loop behind methods that block
    config.py, arguments.py         what applications hand in
    records.py, errors.py           what they get back
    waiting.py                      pauses
    sensors.py, metrics.py          what is counted
    forks.py                        what becomes of clients when a process forks
"""
