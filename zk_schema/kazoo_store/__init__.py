"""`Store` on a real ZooKeeper: `KazooStore`. Nothing outside this package imports kazoo.

store           the calls, with one that kazoo does not have
session         connection, session and watches, where kazoo falls short of what a `Store` promises
client          the KazooClient; handler: from its threads to the loop
values          kazoo's answers and errors as those of a `Store`
"""

from odradek.zk_schema.kazoo_store.session import DEFAULT_SESSION_TIMEOUT_MS
from odradek.zk_schema.kazoo_store.store import KazooStore

__all__ = ["DEFAULT_SESSION_TIMEOUT_MS", "KazooStore"]
