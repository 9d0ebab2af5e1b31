"""Quotas of clients: bytes, the loop's time, partitions created and deleted, new connections.

client_quotas       which quota holds for whom, and what has been used of it
connection_rates    new connections, by listener and by address
rates               how both are measured
"""
