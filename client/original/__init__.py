"""Kafka's original clients: the Producer and the SimpleConsumer of Kafka 0.7 and 0.8, built on the present ones.

producer.py         Producer: producer.type sync and async     simple_consumer.py  SimpleConsumer: one broker, no state
send_queue.py       queue and thread of producer.type=async    messages.py         values that both take and return
config.py           settings, under the names of 0.7 and 0.8   encoders.py         encoders, and partitioners of keys
"""

from odradek.client.original.encoders import DefaultEncoder, Encoder, NullEncoder, StringEncoder
from odradek.client.original.messages import (
    FetchRequest,
    KeyedMessage,
    Message,
    MessageAndOffset,
    MessageSet,
    ProducerData,
)
from odradek.client.original.producer import Producer
from odradek.client.original.send_queue import CallbackHandler, EventHandler
from odradek.client.original.simple_consumer import EARLIEST_TIME, LATEST_TIME, SimpleConsumer

__all__ = [
    "EARLIEST_TIME",
    "LATEST_TIME",
    "CallbackHandler",
    "DefaultEncoder",
    "Encoder",
    "EventHandler",
    "FetchRequest",
    "KeyedMessage",
    "Message",
    "MessageAndOffset",
    "MessageSet",
    "NullEncoder",
    "Producer",
    "ProducerData",
    "SimpleConsumer",
    "StringEncoder",
]
