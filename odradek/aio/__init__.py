"""Asyncio clients: `from odradek.aio import Producer`.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        report = await producer.send("orders", b"hello")    # queued
        metadata = await report                             # delivered

Settings are Kafka's, as snake_case keywords or in a mapping of Kafka's own names. A client belongs to the event loop on
which it was started. It needs no thread, and takes network, clock and randomness from whoever gives them.
"""

from odradek.client.aio.producer import Producer

__all__ = ["Producer"]
