"""Which version of a request a connection speaks. Pure."""

from collections.abc import Mapping

from odradek.client.errors import UnsupportedByBroker
from odradek.protocol.fields import Message
from odradek.protocol.messages.api_versions import ApiVersionsResponse

Ranges = Mapping[int, tuple[int, int]]
"""API key → lowest and highest version that a broker serves."""

API_VERSIONS_TRIED = (3, 0)
"""The version asked first on each connection, and the one to fall back to when the broker refuses it (KIP-511)."""


def ranges_of(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    """Return what an ApiVersions answer says."""
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


def common_version(message: type[Message], served: Ranges, address: str, highest: int | None = None) -> int:
    """The highest version of a request that both sides know, at most `highest`. Raises UnsupportedByBroker."""
    own_lowest, own_highest = message.VERSIONS
    name = message.__name__.removesuffix("Request")
    if message.API_KEY not in served:
        raise UnsupportedByBroker(f"broker {address} does not serve {name} (API key {message.API_KEY})")
    lowest, served_highest = served[message.API_KEY]
    version = min(own_highest, served_highest, own_highest if highest is None else highest)
    if version < max(own_lowest, lowest):
        raise UnsupportedByBroker(
            f"broker {address} serves {name} {lowest}-{served_highest}, this client {own_lowest}-{own_highest}"
        )
    return version
