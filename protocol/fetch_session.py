"""The fetcher's side of a fetch session (KIP-227): a broker is told only what it does not know yet.

The first Fetch names all partitions, with epoch 0. Where its answer gives the session an id, each Fetch after it names
those of which something else is wanted than before, and those of which nothing is wanted any more; its answer has those
of which there is news. Consumers and followers have a session with each broker, and one Fetch under way in it at most,
for the epochs count them. Kafka: FetchSessionHandler, FetchMetadata. No I/O.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import ForgottenTopic
from odradek.protocol.topic_names import PartitionKey

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
"""Epoch that ends the session; without one, that of a Fetch outside of any."""
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = 0x7FFFFFFF
NAMES_KEPT: Final = 16
"""Names of topics that are fetched no more are forgotten when there are so many more of them than partitions."""


class Wish(Protocol):
    """Wish of a fetcher for a partition, where to read and how much: an equal one need not be said again."""

    @property
    def topic_id(self) -> bytes:
        """Return the topic's id; zero where it has none."""


K = TypeVar("K", bound=PartitionKey)
W = TypeVar("W", bound=Wish)


class Changes(NamedTuple, Generic[K, W]):
    """Content of the next Fetch of a session: partitions that it names, and those to be forgotten."""

    named: dict[K, W]
    forgotten: list[tuple[K, W]]
    """Partitions with their former wishes. One that is named as well is another topic's, which has taken the name."""

    def forgotten_topics(self) -> list[ForgottenTopic]:
        """Return `forgotten` as a request has it."""
        topics: dict[tuple[str, bytes], list[int]] = {}
        for (topic, index), former in self.forgotten:
            topics.setdefault((topic, former.topic_id), []).append(index)
        return [ForgottenTopic(topic=name, topic_id=one, partitions=found) for (name, one), found in topics.items()]


class FetchSessionHandler(Generic[K, W]):
    """A session with one broker, or the wish for one: `id` and `epoch` are those of the next Fetch."""

    __slots__ = ("by_topic_id", "epoch", "id", "known", "names")

    def __init__(self) -> None:
        self.id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self.by_topic_id = True
        """True if topics go by their ids and not by their names, which differs between versions of Fetch."""
        self.known: dict[K, W] = {}
        """Wishes that the broker has been told, and fetches by in this session."""
        self.names: dict[bytes, str] = {}
        """Topics of the session by their ids."""

    @property
    def begins(self) -> bool:
        """Tell whether the next Fetch names everything."""
        return self.epoch == INITIAL_EPOCH

    def identify(self, *, by_topic_id: bool) -> None:
        """Say how topics are called from now on: a session that called them otherwise cannot go on."""
        if by_topic_id != self.by_topic_id:
            self.by_topic_id = by_topic_id
            self.begin_anew()

    def changes(self, looked_at: Iterable[tuple[K, W | None]]) -> Changes[K, W]:
        """Compare what is wanted now of some partitions (None: nothing) with what the broker knows."""
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
        """Compare all that is wanted now with all that the broker knows."""
        looked_at: list[tuple[K, W | None]] = list(wanted.items())
        if not self.known.keys() <= wanted.keys():
            looked_at += [(key, None) for key in self.known if key not in wanted]
        return self.changes(looked_at)

    def tell(self, changes: Changes[K, W]) -> None:
        """Note that the Fetch which is sent now says this."""
        known = self.known
        for key, _ in changes.forgotten:
            del known[key]
        known.update(changes.named)
        self.names.update((wish.topic_id, topic) for (topic, _), wish in changes.named.items())
        if len(self.names) > len(known) + NAMES_KEPT:
            self.names = {wish.topic_id: topic for (topic, _), wish in known.items()}

    def answered(self, session_id: int) -> None:
        """Note an answer without error: it goes on with the session, or gives or ends one."""
        if session_id == NO_SESSION:
            self.id = NO_SESSION
            self.begin_anew()
        elif session_id != self.id or self.begins:
            self.id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def refused(self, error: int) -> None:
        """Note that the whole answer is an error."""
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.id = NO_SESSION
        self.begin_anew()

    def begin_anew(self) -> None:
        """Note that the sides may know different things, since an answer is lost, say: name everything the next time.

        The id stays, so that the broker ends the session which it may still have.
        """
        self.epoch, self.known, self.names = INITIAL_EPOCH, {}, {}
