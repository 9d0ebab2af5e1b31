"""Entrance of connections: TLS, SASL, or both, which a connection passes before its requests are handled."""

import ssl
from collections.abc import Callable

from odradek.broker.network.outcomes import Client, Dispatch
from odradek.broker.network.sasl_gate import SaslGate
from odradek.broker.security.listener_security import ListenerSecurity
from odradek.security.tls_endpoint import TlsEndpoint, new_staging
from odradek.world.clock import Clock
from odradek.world.network import Endpoint


class Entrance:
    """The entrances of one broker's listeners."""

    def __init__(
        self, clock: Clock, security_of: Callable[[str], ListenerSecurity | None], refusal_delay_ms: int
    ) -> None:
        """Take `security_of`, which returns the security of a listener as it is now; None for PLAINTEXT."""
        self._clock = clock
        self._security_of = security_of
        self._refusal_delay_ms = refusal_delay_ms
        self._staging = new_staging()

    def request_bytes_max(self, listener: str, otherwise: int) -> int:
        """Return the largest request, in bytes, of a client before it has passed SASL; `otherwise` without SASL."""
        security = self._security_of(listener)
        return otherwise if security is None or security.sasl is None else security.sasl.receive_bytes_max

    def enter(
        self, endpoint: Endpoint, client: Client, dispatch: Dispatch, passed: Callable[[], object]
    ) -> tuple[Endpoint, Dispatch] | None:
        """Return the endpoint to read and write through, and what handles requests until it hands them to `dispatch`.

        Return None where a client has nothing to pass. `passed` is called when it has authenticated, and each time that
        it does so again.
        """
        security = self._security_of(client.listener)
        if security is None:
            return None
        if security.tls is not None:
            endpoint = self._encrypted(endpoint, client, security, passed)
        if security.sasl is not None:
            dispatch = SaslGate(client, security.sasl, self._clock, self._refusal_delay_ms, dispatch, passed)
        return endpoint, dispatch

    def _encrypted(
        self, endpoint: Endpoint, client: Client, security: ListenerSecurity, passed: Callable[[], object]
    ) -> TlsEndpoint:
        tls = security.tls
        assert tls is not None, client.listener

        def established(handshake: ssl.SSLObject) -> None:
            if security.sasl is None:
                client.authenticated(tls.principal(handshake))
                passed()

        return TlsEndpoint(endpoint, tls.context, self._clock, self._staging, server_side=True, established=established)
