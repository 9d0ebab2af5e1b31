"""One broker for Kafka's integration tests, some of which name a client by a Java class of their own. Ours takes no
Java classes: it asks the tests' process for the name (ClientNames.scala)."""

import os
import socket
import sys

from odradek.broker.__main__ import main
from odradek.broker.network.outcomes import Client
from odradek.broker.security.principal import ANONYMOUS, KafkaPrincipal

as_it_is = Client.__init__


def named_by_the_test(self: Client, peer: str, listener: str, number: int = 0) -> None:
    as_it_is(self, peer, listener, number)
    with socket.create_connection(("127.0.0.1", int(os.environ["CLIENT_NAMES_PORT"]))) as asked:
        asked.sendall(f"{listener}\n".encode())
        told = asked.makefile().readline().strip()
    self.principal = KafkaPrincipal.parse(told) if told else ANONYMOUS


if "CLIENT_NAMES_PORT" in os.environ:
    Client.__init__ = named_by_the_test  # type: ignore[method-assign]
sys.exit(main())
