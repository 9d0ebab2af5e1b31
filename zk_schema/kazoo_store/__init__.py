"""`Store` on a real ZooKeeper: `KazooStore`. Nothing outside this package imports kazoo."""

from odradek.zk_schema.kazoo_store.store import DEFAULT_SESSION_TIMEOUT_MS, KazooStore

__all__ = ["DEFAULT_SESSION_TIMEOUT_MS", "KazooStore"]
