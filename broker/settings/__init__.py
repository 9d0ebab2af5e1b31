"""Kafka 3.9's settings of a ZooKeeper-mode broker and of its topics, as tables, and how their values are read.

definition.py says what a setting is; server.py, network.py, logs.py, groups.py, security.py and topics.py are the
tables; effects.py says what each setting does here; catalog.py puts it all together.
"""
