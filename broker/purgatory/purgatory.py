"""Delayed operations: each finishes once, either at once, when one of its keys is touched, or at its deadline.

Touches are queued while an operation is being tried, and handled when it has returned: no operation is entered while it
or another one runs, whatever it touches, and the stack does not grow with a chain of touches. Touches are also queued
while they are held (`hold_touches`), which callers that change several things in a row do, so that what waits is tried
once for all of these changes.
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from odradek.broker.purgatory.timing_wheel import TimingWheel, WheelTimer

log = logging.getLogger(__name__)


class DelayedOperation(Protocol):
    """Work that could not be finished when its request came.

    The operation outlives its connection: when that closes, it can still be touched and expire, unless it only reads
    (`Wait.only_reads`).
    """

    def try_complete(self) -> bool:
        """Finish if possible, now that a key was touched; return True if it has finished, and called its `respond`."""

    def expire(self) -> None:
        """Finish in any case: called once, at the deadline, unless the operation has finished before."""


class _Watch:
    """An unfinished operation and the keys it is listed under."""

    __slots__ = ("keys", "operation", "purgatory", "timer")

    def __init__(self, purgatory: "Purgatory", operation: DelayedOperation, keys: Sequence[Hashable]) -> None:
        self.purgatory, self.operation = purgatory, operation
        self.keys: Sequence[Hashable] | None = keys
        """Keys that the operation waits for; None when it has finished."""
        self.timer: WheelTimer | None = None

    def on_deadline(self) -> None:
        self.purgatory._expire(self)


class Purgatory:
    """Unfinished operations by key; used on the loop only.

    `touch` of a key nobody waits for costs one look into a dict. A finished operation is taken out of all its keys'
    lists at once, so memory is bounded by what is unfinished.
    """

    def __init__(self, timers: TimingWheel) -> None:
        self._timers = timers
        self._watches: dict[Hashable, dict[_Watch, None]] = {}
        self._listeners: dict[Hashable, tuple[Callable[[], None], ...]] = {}
        self._touched: list[Hashable] = []
        self._busy = False
        self._unfinished = 0
        self.expired: Counter[str] = Counter()
        """How many operations have come to their deadline, by the name of their class."""

    def __len__(self) -> int:
        """Unfinished operations (Kafka's metric `NumDelayedOperations`)."""
        return self._unfinished

    def unfinished(self) -> list[DelayedOperation]:
        """List the unfinished operations, without the boundaries that guard them."""
        watches = dict.fromkeys(watch for waiting in self._watches.values() for watch in waiting)
        return [getattr(watch.operation, "guarded", watch.operation) for watch in watches]

    def kinds(self) -> Counter[str]:
        """Count the unfinished operations by the name of their class."""
        return Counter(type(operation).__name__ for operation in self.unfinished())

    @property
    def watched_keys(self) -> int:
        """Keys that somebody waits for."""
        return len(self._watches)

    @property
    def listened_keys(self) -> int:
        """Keys that somebody listens to."""
        return len(self._listeners)

    def watch(
        self, operation: DelayedOperation, keys: Sequence[Hashable], timeout_ms: float, *, tried: bool = False
    ) -> bool:
        """Try the operation now, and unless that finishes it keep it until a touch or the deadline does.

        Tells whether it is finished. `keys` are kept, not copied. A timeout of 0 or less expires the operation at once.
        An operation may call `watch` and `touch` itself. `tried`: it has already been tried in vain, and touches have
        been held since before that.
        """
        outermost = not self._busy
        assert not (tried and outermost), f"{operation} may have missed a touch"
        self._busy = True
        try:
            finished = not tried and operation.try_complete()
            if not finished and timeout_ms <= 0:
                operation.expire()
                finished = True
            if not finished:
                self._add(_Watch(self, operation, keys), timeout_ms)
        finally:
            if outermost:
                self._busy = False
        if outermost and self._touched:
            self._take_up_touches()
        return finished

    def touch(self, key: Hashable) -> None:
        """Try the operations that wait for `key`, about which something has changed, oldest first.

        From within an operation this only notes the key; they are tried when that operation has returned.
        """
        for listener in self._listeners.get(key, ()):
            listener()
        if key in self._watches or self._busy:
            self._touched.append(key)
            if not self._busy:
                self._take_up_touches()

    def hold_touches(self) -> None:
        """Queue what is touched until `release_touches`. Not from within an operation."""
        assert not self._busy, "held already"
        self._busy = True

    def release_touches(self) -> None:
        """Take up what has been touched since `hold_touches`."""
        self._busy = False
        if self._touched:
            self._take_up_touches()

    def listen(self, key: Hashable, listener: Callable[[], None]) -> None:
        """Call `listener` whenever `key` is touched, before what waits for it is tried, until `unlisten`.

        It notes what happened, and may touch other keys.
        """
        self._listeners[key] = (*self._listeners.get(key, ()), listener)

    def unlisten(self, key: Hashable, listener: Callable[[], None]) -> None:
        """Stop calling a `listener` that was given to `listen`."""
        listeners = self._listeners.pop(key)
        assert listener in listeners, (key, listener)
        others = tuple(one for one in listeners if one != listener)
        if others:
            self._listeners[key] = others

    def _add(self, watch: _Watch, timeout_ms: float) -> None:
        assert watch.keys is not None
        self._unfinished += 1
        for key in watch.keys:
            self._watches.setdefault(key, {})[watch] = None
        watch.timer = self._timers.call_later(timeout_ms, watch.on_deadline)

    def _remove(self, watch: _Watch) -> None:
        keys, watch.keys = watch.keys, None
        assert keys is not None and watch.timer is not None, "removed twice"
        watch.timer.cancel()
        self._unfinished -= 1
        for key in keys:
            watches = self._watches.get(key)
            if watches is not None and watches.pop(watch, watch) is None and not watches:
                del self._watches[key]

    def _take_up_touches(self) -> None:
        """Try what waits for the touched keys, once for all of them, then for those that were touched meanwhile.

        An operation that raises is a bug of ours: it is logged and dropped. Whoever touched the key, perhaps another
        connection, does not notice.
        """
        self._busy = True
        try:
            while self._touched:
                keys, self._touched = self._touched, []
                for watch in dict.fromkeys(watch for key in keys for watch in self._watches.get(key, ())):
                    if watch.keys is not None:
                        self._try(watch)
        finally:
            self._busy = False

    def _try(self, watch: _Watch) -> None:
        try:
            finished = watch.operation.try_complete()
        except Exception as error:
            log.error("a delayed operation is dropped: %s", watch.operation, exc_info=error)
            finished = True
        if finished:
            self._remove(watch)

    def _expire(self, watch: _Watch) -> None:
        """Expire an operation whose deadline has come; called by the timing wheel."""
        assert watch.keys is not None, "a finished operation has no timer"
        self._remove(watch)
        self.expired[type(getattr(watch.operation, "guarded", watch.operation)).__name__] += 1
        self._busy = True
        try:
            watch.operation.expire()
        except Exception as error:
            log.error("a delayed operation failed at its deadline: %s", watch.operation, exc_info=error)
        finally:
            self._busy = False
        if self._touched:
            self._take_up_touches()
