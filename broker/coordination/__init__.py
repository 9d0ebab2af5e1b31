"""A coordinator's topic as its coordinator sees it: what the coordinators of groups and of transactions share.

partition_count     which partition of the topic a name lives in
owned_partitions    the partitions of the topic that this broker leads: elections, and loading
topic_storage       reading from them, and appending to them
"""
