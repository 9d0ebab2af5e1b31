"""Certificates that the tests of this folder use, made once: an authority, a broker, a client, and a stranger."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from odradek.security.authority import Authority
from odradek.security.key_stores import KeyPair


class People(NamedTuple):
    """Everybody who shows a certificate."""

    authority: Authority
    broker: KeyPair
    client: KeyPair
    stranger: KeyPair
    """Of an authority that nobody here believes."""

    def keys(self, pair: KeyPair) -> dict[str, Any]:
        """Settings that show it, as PEM texts."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": pair.key_pem().decode(),
            "ssl.keystore.certificate.chain": pair.chain_pem().decode(),
        }

    def trust(self) -> dict[str, Any]:
        """Settings that believe the authority, as a PEM text."""
        pem = self.authority.certificate.public_bytes(Encoding.PEM).decode()
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}

    def server(self) -> dict[str, Any]:
        """Settings of a listener."""
        return {**self.keys(self.broker), **self.trust()}


@pytest.fixture(scope="session")
def people() -> People:
    authority = Authority("Test CA")
    return People(
        authority,
        authority.issue("broker", hosts=["broker", "localhost", "127.0.0.1"]),
        authority.issue("alice", organization="Flights, Inc"),
        Authority("Another CA").issue("mallory", hosts=["broker"]),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
