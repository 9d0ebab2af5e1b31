"""Messages: one file per API with its request and its response, in all versions; its head says how a broker behaves.

Not of an API: consumer_offsets and transaction_state (records of Kafka's own topics), consumer_protocol (what members
of a group tell each other in JoinGroup and SyncGroup).
"""
