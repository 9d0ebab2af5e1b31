"""The link to ZooKeeper as a value: TLS or none, the login, and whether others may change the znodes we make."""

import ssl
from dataclasses import dataclass
from typing import Final

from odradek.zk_schema.znodes.configs import BROKERS, USERS, entity_type_path
from odradek.zk_schema.znodes.consumers import CONSUMERS_PATH
from odradek.zk_schema.znodes.tokens import TOKENS_PATH

SENSITIVE_PATHS: Final = (entity_type_path(USERS), entity_type_path(BROKERS), TOKENS_PATH)
"""Paths at and below which znodes hold secrets (Kafka's ZkData.SensitiveRootPaths)."""


@dataclass(frozen=True, slots=True)
class Link:
    """The link to ZooKeeper."""

    tls: ssl.SSLContext | None = None
    """Context for TLS; None: no TLS."""
    user: str = ""
    """User to log in as by SASL's DIGEST-MD5, as ZooKeeper's own digest login is; empty: no login."""
    password: str = ""
    set_acl: bool = False
    """True to make znodes that nobody else may change, and sensitive ones such that nobody else may read them."""

    def __repr__(self) -> str:
        return f"Link(tls={self.tls is not None}, user={self.user!r}, set_acl={self.set_acl})"


OPEN: Final = Link()


def is_sensitive(path: str) -> bool:
    """Tell whether only brokers may read a znode where access lists are set (ZkData.sensitivePath)."""
    return path.startswith(SENSITIVE_PATHS)


def is_open(path: str) -> bool:
    """Tell whether everybody may write a znode even there: below it consumers of 0.8 register (ZkData.defaultAcls)."""
    return path == CONSUMERS_PATH
