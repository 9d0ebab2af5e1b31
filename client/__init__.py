"""Clients: producer, consumer, admin. Pure cores, and thin shells that own a thread and sockets."""
