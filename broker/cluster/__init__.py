"""The broker as a member of its cluster: registration, cluster metadata, and requests to other brokers."""
