"""The broker as a member of its cluster: registration, cluster metadata, and requests to other brokers.

session                     ids of broker and cluster; registers, and again when the ZooKeeper session has expired
metadata_cache              the cluster, as controllers tell it
controller_messages         partitions in what controllers say, whatever the version
peer                        a connection to another broker, and how long setting it up may take
broker_client               requests to other brokers, and to the controller
topic_creation              topics that are made because somebody asked for them
directory_events            tells the controller that a log directory has failed
unclean_restart             before the broker registers: waits until it is out of ISRs whose records it may have lost
stray_replicas              after it has registered: removes logs that the cluster does not count on any more
shutdown                    before it stops: its leaders move
"""
