"""The fetcher's side of a fetch session (KIP-227): a Fetch names only partitions whose wishes have changed.

The first Fetch names all partitions, with epoch 0. If its answer gives the session an id, each later Fetch names the
partitions for which the wish has changed, and those that are not fetched any more; its answer has only partitions with
news. Consumers and followers have one session with each broker, and at most one Fetch under way in it, since the epoch
counts them. Kafka: FetchSessionHandler, FetchMetadata. No I/O.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import ForgottenTopic
from odradek.protocol.topic_names import PartitionKey

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
"""Epoch of a Fetch that ends the session, or, with NO_SESSION, of one outside of any session."""
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = 0x7FFFFFFF
NAMES_KEPT: Final = 16
"""Names of topics that are not fetched any more are forgotten once there are so many more names than partitions."""


class Wish(Protocol):
    """Wish of a fetcher for a partition, from where and how much to read; it is sent again only when it changes."""

    @property
    def topic_id(self) -> bytes:
        """Return the topic's id; ZERO_UUID if it has none."""


K = TypeVar("K", bound=PartitionKey)
W = TypeVar("W", bound=Wish)


class Changes(NamedTuple, Generic[K, W]):
    """Content of the next Fetch of a session: partitions that it names, and those to be forgotten."""

    named: dict[K, W]
    forgotten: list[tuple[K, W]]
    """Partitions with their former wishes. One that is in `named`, too, belongs now to another topic of that name."""

    def forgotten_topics(self) -> list[ForgottenTopic]:
        """Return `forgotten` as Fetch requests need it."""
        topics: dict[tuple[str, bytes], list[int]] = {}
        for (topic, index), former in self.forgotten:
            topics.setdefault((topic, former.topic_id), []).append(index)
        return [ForgottenTopic(topic=name, topic_id=one, partitions=found) for (name, one), found in topics.items()]


class FetchSessionHandler(Generic[K, W]):
    """A session with one broker, or the state before one. `id` and `epoch` are those of the next Fetch."""

    __slots__ = ("by_topic_id", "epoch", "id", "known", "names")

    def __init__(self) -> None:
        self.id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self.by_topic_id = True
        """True if Fetch requests name topics by id, which depends on their version; False: by name."""
        self.known: dict[K, W] = {}
        """Wishes that were sent to the broker in this session."""
        self.names: dict[bytes, str] = {}
        """Topics of the session by their ids."""

    @property
    def begins(self) -> bool:
        """Tell whether the next Fetch names all partitions."""
        return self.epoch == INITIAL_EPOCH

    def identify(self, *, by_topic_id: bool) -> None:
        """Set whether topics go by their ids from now on. A session in which that was different begins anew."""
        if by_topic_id != self.by_topic_id:
            self.by_topic_id = by_topic_id
            self.begin_anew()

    def changes(self, looked_at: Iterable[tuple[K, W | None]]) -> Changes[K, W]:
        """Compare the present wishes for some partitions (None: not to be fetched) with those that were sent."""
        known = self.known
        named: dict[K, W] = {}
        forgotten: list[tuple[K, W]] = []
        for key, wish in looked_at:
            former = known.get(key)
            if wish == former:
                continue
            if wish is not None:
                named[key] = wish
            if former is not None and (wish is None or (self.by_topic_id and former.topic_id != wish.topic_id)):
                forgotten.append((key, former))
        return Changes(named, forgotten)

    def changes_to(self, wanted: Mapping[K, W]) -> Changes[K, W]:
        """Compare all present wishes with all that were sent."""
        looked_at: list[tuple[K, W | None]] = list(wanted.items())
        if not self.known.keys() <= wanted.keys():
            looked_at += [(key, None) for key in self.known if key not in wanted]
        return self.changes(looked_at)

    def tell(self, changes: Changes[K, W]) -> None:
        """Note that a Fetch with these changes is sent now."""
        known = self.known
        for key, _ in changes.forgotten:
            del known[key]
        known.update(changes.named)
        self.names.update((wish.topic_id, topic) for (topic, _), wish in changes.named.items())
        if len(self.names) > len(known) + NAMES_KEPT:
            self.names = {wish.topic_id: topic for (topic, _), wish in known.items()}

    def answered(self, session_id: int) -> None:
        """Note an answer without error, which continues the session, begins one, or ends it (NO_SESSION)."""
        if session_id == NO_SESSION:
            self.id = NO_SESSION
            self.begin_anew()
        elif session_id != self.id:
            self.id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def refused(self, error: int) -> None:
        """Note an answer that has an error for the whole Fetch."""
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.id = NO_SESSION
        self.begin_anew()

    def begin_anew(self) -> None:
        """Have the next Fetch name all partitions, since an answer was lost, say, and the broker may have other wishes.

        The id stays, so that the broker ends the session, if it still has it.
        """
        self.epoch, self.known, self.names = INITIAL_EPOCH, {}, {}
