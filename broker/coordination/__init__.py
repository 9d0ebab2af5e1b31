"""A coordinator's topic as its coordinator sees it, the same for groups and for transactions.

partition_count     which partition of the topic a name lives in
owned_partitions    the partitions of it that this broker leads: elections, and the loading
topic_storage       reading them, and appending to them
"""
