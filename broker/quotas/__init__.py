"""Quotas of clients: bytes, the loop's time, partitions created and deleted, new connections."""
