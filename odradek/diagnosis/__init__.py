"""Diagnosis: what is wrong with a cluster, why, and the way out. `odradek why`, `doctor` and `top` show it.

facts              what is known of brokers, partitions and groups at one moment, and what is not
shapes             which entries of a journal can be read
history            the journals of all brokers, merged in order of time
situation          a row of the table (sign, cause, rule, way out), and findings: the rows that hold
cases              a partition, broker, group or cluster with what the rows need of it; the rows are in clusters,
                   brokers, leaders, replicas, groups and transactions. Pure: facts in, findings out
examination        all rows over all cases; telling puts what was found into lines, page into docs/why.md
questions          questions to a cluster, each with a time limit of its own
gathering          the shell: facts from brokers, from ZooKeeper (zookeeper), and from journals over HTTP;
                   topic_gathering asks about topics and partitions, surroundings connects to ZooKeeper and journals
watching           one look after the other for `odradek top`; overview compares two of them
"""
