"""Envelope (key 58), version 0: a request forwarded to the controller with its client's principal (KIP-590).

In ZooKeeper mode nothing is forwarded: as Kafka does, the broker closes the connection of whoever sends one.
"""

from odradek.broker.network.outcomes import Outcome, RequestContext, Silent
from odradek.broker.services import Services
from odradek.protocol.messages.envelope import EnvelopeRequest

REQUEST = EnvelopeRequest
VERSIONS = (0, 0)


def handle(broker: Services, request: EnvelopeRequest, context: RequestContext) -> Outcome:
    return Silent(close=True)
