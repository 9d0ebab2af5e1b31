"""How much clients may take: bytes, the loop's time, topics created and deleted, new connections."""
