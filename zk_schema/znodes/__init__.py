"""Every znode of a Kafka 3.9 cluster: its path, what it holds, and its bytes. The tree, and where each part is told:

brokers.py          /brokers/ids/[id] /brokers/seqid
topics.py           /brokers/topics/[topic] /brokers/topics/[topic]/partitions/[partition]/state
controller.py       /controller /controller_epoch
cluster.py          /cluster/id /feature /latest_producer_id_block
configs.py          /config/{topics,clients,users,brokers,ips}/[entity]
admin.py            /admin/{delete_topics,reassign_partitions,preferred_replica_election}
notifications.py    /config/changes /isr_change_notification /log_dir_event_notification
acls.py             /kafka-acl /kafka-acl-extended /kafka-acl-changes /kafka-acl-extended-changes
tokens.py           /delegation_token
consumers.py        /consumers/[group]/{ids,owners,offsets}, the tree of the 0.8 consumer
json_data.py        reading and writing JSON, which most of them hold
"""
