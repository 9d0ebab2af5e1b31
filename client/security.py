"""A client's connections, made as safe as its settings say."""

import ssl
from typing import Any

from odradek.client.config import SecurityConfig
from odradek.client.errors import ConfigError
from odradek.security.errors import BadSecuritySetting
from odradek.world.clock import Clock
from odradek.world.network import Network


def secured(network: Network, clock: Clock, config: SecurityConfig) -> Network:
    """The network on which connections are to be made. Reads files of keys and certificates. Raises ConfigError."""
    if config.security_protocol == "PLAINTEXT":
        return network
    from odradek.security.secure_network import ClientSecurity, SecureNetwork

    if config.ssl_context is not None and not isinstance(config.ssl_context, ssl.SSLContext):
        raise ConfigError(f"ssl.context must be an ssl.SSLContext, not {type(config.ssl_context).__name__}")

    def look(name: str) -> Any:
        if name == "ssl.endpoint.identification.algorithm" and not config.ssl_check_hostname:
            return ""
        return getattr(config, name.replace(".", "_"), None)

    try:
        security = ClientSecurity.read(config.security_protocol, look, config.ssl_context)
    except BadSecuritySetting as error:
        raise ConfigError(str(error), setting=error.setting) from None
    return SecureNetwork(network, clock, security)
