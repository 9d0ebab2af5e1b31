"""ZooKeeper: what a cluster keeps in it, and the ways to read and write that.

store               what is asked of ZooKeeper: reads, writes, watches, events
kazoo_store         the same on a real one; link: TLS, login and access lists of the way there
znodes              each znode: its path, what it holds, its bytes
lost_answers        writes whose answer may be lost
registration        a broker's own znode, and what it asks before it has one
entity_settings     settings of topics, brokers, users, clients and addresses
change_nodes        sequential znodes that tell brokers what to read again
backup              all znodes as lines of text, and back
"""
