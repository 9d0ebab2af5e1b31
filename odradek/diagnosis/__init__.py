"""Diagnosis: what is wrong with a cluster, why, and the way out. `odradek why` and `odradek doctor` show it.

facts        what is known of brokers, partitions and groups at one moment, and what is not
history      journals of the brokers as one story
situations   a table: sign, cause, rule, way out; findings are its rows that hold. Pure: facts in, findings out
questions    what is asked of a cluster, each question with its own time
gathering    the shell: facts from brokers, from ZooKeeper, and from journals over HTTP
"""
