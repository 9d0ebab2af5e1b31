"""A coordinator's topic as its coordinator sees it, the same for groups and for transactions.

partition_count     which partition of the topic a name lives in
elections           tells a coordinator which of the partitions this broker leads
owned_partitions    those that are loaded, and the loading
topic_storage       reading them, and appending to them
"""
