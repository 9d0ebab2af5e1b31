"""The ZooKeeper client made of kazoo's: it tries for ever, and no single server may cost the session.

By itself kazoo tries again after the errors that it foresees, but any other error ends its thread for good: looking up
a name when no descriptor is left, say. Here another attempt follows any error.

By itself kazoo waits for as long as a session lasts until a server takes its connection and answers its Connect
request. A node that lost its power does neither. One that is just starting may take the connection and never answer:
ZooKeeper 3.9 stumbles over a client that is earlier than its database, and leaves the connection open. Here each of the
two waits has only a share of the session, and then another attempt follows.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kazoo
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException, SessionClosedRequireSaslError
from kazoo.retry import ForceRetryError
from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

from odradek.zk_schema.kazoo_store.handler import LoopHandler
from odradek.zk_schema.link import Link, is_open, is_sensitive
from odradek.zk_schema.store import StoreError

RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.2, "max_delay": 1.0}
HANDSHAKES_PER_SESSION = 3
"""Connect requests in a row that may go unanswered before the session is gone."""

PRIVATE_PARTS = (
    "_session_id",
    "_session_passwd",
    "_data_watchers",
    "_child_watchers",
    "_call",
    "last_zxid",
    "_connection",
)
"""Attributes used of a KazooClient besides its documented methods; of its `_connection`, PARTS_OF_ITS_CONNECTION."""
PARTS_OF_ITS_CONNECTION = ("_invoke", "_connect_loop", "_read", "_socket", "_authenticate_with_sasl")

log = logging.getLogger("odradek.zookeeper")
_log = logging.getLogger("odradek.zookeeper.kazoo")
_log.setLevel(logging.CRITICAL)


class UnknownKazoo(StoreError):  # noqa: N818 (a sentence for a person)
    """The installed kazoo lacks a private part that this package uses."""

    def __init__(self, missing: str) -> None:
        super().__init__("/")
        self.reason = f"kazoo {kazoo.__version__} has no {missing}: kazoo 2.10 or 2.11 is needed"

    def __str__(self) -> str:
        return self.reason


@dataclass
class SessionTimeout:
    """The session's timeout as asked for, and as granted from the first answer on."""

    ms: float

    def for_a_handshake(self) -> float:
        """Seconds until a server must have answered the Connect request."""
        return self.ms / 1000.0 / HANDSHAKES_PER_SESSION

    def for_a_connection(self, servers: int) -> float:
        """Seconds until one of `servers` servers must have taken the TCP connection. kazoo notices a silence after two
        thirds of the session; in the last third each server should have its turn."""
        return self.ms / 1000.0 / 3 / servers


def new_client(
    hosts: str,
    timeout: SessionTimeout,
    handler: LoopHandler,
    listener: Callable[[str, int | None], None],
    link: Link,
) -> Any:
    """Make a KazooClient that is not started. `listener` is called in kazoo's thread: KeeperState, session's id.

    Raises UnknownKazoo.
    """
    client = KazooClient(
        hosts=hosts,
        timeout=timeout.ms / 1000.0,
        handler=handler,
        connection_retry=dict(RECONNECT),
        logger=_log,
        sasl_options=_sasl_options(link),
    )
    check_private_parts(client)
    client.add_listener(lambda _: listener(client.client_state, client._session_id))
    connection = client._connection
    connection._invoke = _shaking_hands(connection._invoke, timeout)
    connection._connect_loop = _undaunted(connection._connect_loop, hosts)
    connection._read = _noting_words(connection._read, handler)
    connection._authenticate_with_sasl = _telling_of_refusal(connection._authenticate_with_sasl)
    return client


def _sasl_options(link: Link) -> dict[str, str] | None:
    if not link.user:
        return None
    return {"mechanism": "DIGEST-MD5", "username": link.user, "password": link.password}


def acl_of(link: Link, path: str) -> list[Any] | None:
    """Return the access list to make a znode with; None where everybody may do everything (Kafka's
    ZkData.defaultAcls)."""
    if not link.set_acl or is_open(path):
        return None
    return [*CREATOR_ALL_ACL] if is_sensitive(path) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def check_private_parts(client: Any) -> None:
    """Raise UnknownKazoo unless `client`, a KazooClient, has all of PRIVATE_PARTS, and its connection what it needs."""
    for name in PRIVATE_PARTS:
        if not hasattr(client, name):
            raise UnknownKazoo(f"KazooClient.{name}")
    for name in PARTS_OF_ITS_CONNECTION:
        if not hasattr(client._connection, name):
            raise UnknownKazoo(f"ConnectionHandler.{name}")


def _shaking_hands(invoke: Callable[..., Any], timeout: SessionTimeout) -> Callable[..., Any]:
    """Wrap how kazoo sends its Connect request, and note the timeout that the server grants: kazoo tells nobody."""

    def shake(patience_s: float, request: Any, xid: int | None = None) -> Any:
        answer = invoke(min(patience_s, timeout.for_a_handshake()), request, xid)
        granted_ms = getattr(answer[0], "time_out", 0) if isinstance(answer, tuple) else 0
        if granted_ms > 0:
            timeout.ms = granted_ms
        return answer

    return shake


def _noting_words(read: Callable[[int, float | None], bytes], handler: LoopHandler) -> Callable[..., bytes]:
    """Wrap how kazoo reads a part of what a server says; it raises when the server hangs up or is silent."""

    def read_and_note(length: int, timeout_s: float | None) -> bytes:
        part = read(length, timeout_s)
        handler.note_word()
        return part

    return read_and_note


def _telling_of_refusal(authenticate: Callable[..., None]) -> Callable[..., None]:
    """Wrap kazoo's login. A server that lets nobody in without one (`enforce.auth.enabled`) answers a wrong password
    with an error that ends kazoo's thread; others hang up, which kazoo has foreseen: both are the same refusal."""

    def log_in(*arguments: Any) -> None:
        try:
            authenticate(*arguments)
        except SessionClosedRequireSaslError as error:
            raise AuthFailedError("login refused") from error

    return log_in


def _undaunted(connect_loop: Callable[..., Any], hosts: str) -> Callable[..., Any]:
    """Wrap the loop in which kazoo tries one server after the other and serves the connection, in its own thread.
    Whatever it raises, the thread goes on. The same trouble is logged once, until an attempt ends as kazoo foresees."""
    told = ""

    def attempt(retry: Any) -> Any:
        nonlocal told
        try:
            return connect_loop(retry)
        except (KazooException, ForceRetryError):  # kazoo has foreseen these
            told = ""
            raise
        except Exception as error:
            if str(error) != told:
                told = str(error)
                known = isinstance(error, OSError)
                said = "ZooKeeper at %s cannot be reached, it is tried again: %s"
                log.error(said, hosts, error, exc_info=None if known else error)
            raise ForceRetryError(told) from error

    return attempt
