"""`Store` on a real ZooKeeper: `KazooStore`. Nothing outside this package imports kazoo."""

from odradek.zk_schema.kazoo_store.session import DEFAULT_SESSION_TIMEOUT_MS
from odradek.zk_schema.kazoo_store.store import KazooStore

__all__ = ["DEFAULT_SESSION_TIMEOUT_MS", "KazooStore"]
