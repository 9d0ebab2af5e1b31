"""One broker for Kafka's integration tests, some of which name a client by its listener, with a Java class of their
own: CLIENT is User:client. Ours takes no Java classes."""

import sys

from odradek.broker.__main__ import main
from odradek.broker.network.outcomes import Client
from odradek.broker.security.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal

PRINCIPALS = {listener: KafkaPrincipal(USER_TYPE, listener.lower()) for listener in ("BROKER", "SERVER", "CLIENT")}
as_it_is = Client.__init__


def named_by_listener(self: Client, peer: str, listener: str, number: int = 0) -> None:
    as_it_is(self, peer, listener, number)
    self.principal = PRINCIPALS.get(listener, ANONYMOUS)


Client.__init__ = named_by_listener  # type: ignore[method-assign]
sys.exit(main())
