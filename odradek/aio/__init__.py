"""Asyncio clients: `from odradek.aio import Producer, Consumer, Admin`.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        report = await producer.send("orders", b"hello")    # queued
        metadata = await report                             # delivered

    async with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        async for record in consumer: ...

Settings are Kafka's, as snake_case keywords or in a mapping of Kafka's own names. A client belongs to the event loop on
which it was started. It needs no thread, and takes network, clock and randomness from whoever gives them.
"""

from odradek.client.aio.admin import Admin
from odradek.client.aio.consumer import Consumer
from odradek.client.aio.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
