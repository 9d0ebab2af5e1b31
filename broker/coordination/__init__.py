"""A coordinator's topic as its coordinator sees it: what the coordinators of groups and of transactions share.

partition_count     which partition of the topic a name lives in
owned_partitions    the partitions of the topic that this broker leads: elections, and loading
topic_storage       reading from them, and appending to them
sender_connections  which requests may be late, as their sender has given up the connection they come on
"""
