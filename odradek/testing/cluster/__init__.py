"""A whole cluster inside a test's process, for any Kafka client, with faults that the test owns.

`Cluster` (blocking.py) is what tests use; `AsyncCluster` (control.py) is what it can do, as coroutines; runners.py has
the thread or the process that it lives in.
"""
