"""Quotas of users and client ids: which one holds for whom, and what has been used of it.

A quota may be set for a user, for a client id, for both together, and for all others of each. The first of these that
is set is the one that holds, and everybody for whom the same one holds by the same name shares it:

    user and client id, user and other clients, user,
    other users and client id, other users and other clients, other users,
    client id, other clients

Source: ClientQuotaManager of Kafka 3.9.
"""

import logging
from collections.abc import Iterator, Mapping
from enum import Enum
from hashlib import sha256
from math import inf
from typing import Final, NamedTuple

from odradek.broker.quotas.rates import RateWindows, SampledMean, SampledRate, TokenBucket, parse_limit
from odradek.world.clock import Clock, Timer
from odradek.zk_schema.znodes.configs import DEFAULT_ENTITY, desanitize, sanitize

log = logging.getLogger(__name__)

REMEMBERED_MAX: Final = 10_000
"""Most users and clients whose use is remembered. To make room, those that have used nothing for as long as a rate
looks back are forgotten, which nobody notices; if there are none, the one that was there first."""
IDLE_SWEEP_MS: Final = 1000
"""Shortest time between two searches for such users: each search looks at all that are remembered."""
BYTES_MAX: Final = 2**31 - 1
"""Most that an answer can hold."""
EXPIRY_MS: Final = 3_600_000
"""Time without addition after which a use is forgotten (ClientQuotaManager.InactiveSensorExpirationTimeSeconds)."""
SWEEP_MS: Final = 600_000
"""Pause between two looks for what is to be forgotten, while anything is remembered."""
THROTTLE_WINDOWS: Final = RateWindows(2, 30_000.0)
"""Windows of the mean time that clients are told to wait, which metrics tell (Kafka's metrics.sample.window.ms)."""
NAME_CHARACTERS_MAX: Final = 255
"""Longest name of a user or client that is remembered as it is, longer ones by digest: a client id may have 32 kB."""


class QuotaType(Enum):
    """Kinds of quotas; the value is the name of the setting."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"


Entity = tuple[str, str]
"""A user's and a client id's name as parts of a path, "" for none."""


class Use:
    """What one holder of a quota has used, and how long it has had to wait."""

    __slots__ = ("bucket", "rate", "throttles_ms")

    def __init__(self, windows: RateWindows, mutation_windows: RateWindows) -> None:
        self.rate, self.bucket = SampledRate(windows), TokenBucket(mutation_windows)
        self.throttles_ms = SampledMean(THROTTLE_WINDOWS)

    def throttled(self, throttle_ms: int, now_ms: float) -> int:
        """Count a time, if it is any, and return it."""
        if throttle_ms:
            self.throttles_ms.record(throttle_ms, now_ms)
        return throttle_ms


class Budget(NamedTuple):
    """Rate that one holder of a quota may use, and what it has used."""

    limit: float
    used: Use


class ClientQuotas:
    """The quotas of one broker. Loop-thread only."""

    def __init__(self, clock: Clock, windows: RateWindows, mutation_windows: RateWindows) -> None:
        """Take the `windows` of rates, and `mutation_windows`, those of what is created and deleted."""
        self.windows = windows
        self._clock = clock
        self._mutation_windows = mutation_windows
        self._limits: dict[QuotaType, dict[Entity, float]] = {one: {} for one in QuotaType}
        self._used: dict[tuple[QuotaType, Entity], Use] = {}
        self._budgets: dict[tuple[QuotaType, str, str], Budget | None] = {}
        """Budgets that have been found, by the names as they are; those with too long names are not kept."""
        self._sweep: Timer | None = None
        self._next_idle_sweep_ms = -inf
        spans_ms = (one.number * one.length_ms for one in (windows, mutation_windows))
        self._looks_back_ms = max(spans_ms)

    @property
    def any(self) -> bool:
        """True if any quota is set."""
        return any(self._limits.values())

    def set_entity(self, entity: str, settings: Mapping[str, str]) -> None:
        """Take over the settings of `users/…`, `clients/…` or `users/…/clients/…`, names as in paths.

        A value that is not a number is ignored, and the former one stays.
        """
        holder = _holder(entity)
        if holder is None:
            log.error("quotas of %s are ignored: not a valid entity", entity)
            return
        for kind, limits in self._limits.items():
            text = settings.get(kind.value)
            if text is None:
                limits.pop(holder, None)
                continue
            try:
                limits[holder] = parse_limit(text)
            except ValueError:
                log.error("an invalid quota is ignored: %s of %s is %r", kind.value, entity, text)
        self._budgets.clear()

    def budget(self, kind: QuotaType, user: str, client_id: str) -> Budget | None:
        """Find the quota that holds for a user's client; None: it may use as much as it likes."""
        key = (kind, user, client_id)
        try:
            return self._budgets[key]
        except KeyError:
            found = self._find(kind, user, client_id)
        if max(len(user), len(client_id)) > NAME_CHARACTERS_MAX:
            return found
        if len(self._budgets) >= REMEMBERED_MAX:
            self._budgets.clear()
        self._budgets[key] = found
        self._plan_sweep()
        return found

    def _find(self, kind: QuotaType, user: str, client_id: str) -> Budget | None:
        limits = self._limits[kind]
        if not limits:
            return None
        for named, shared in _candidates(sanitize(user), sanitize(client_id)):
            limit = limits.get(named)
            if limit is not None:
                return Budget(limit, self._use_of(kind, (_short(shared[0]), _short(shared[1]))))
        return None

    def _use_of(self, kind: QuotaType, holder: Entity) -> Use:
        used = self._used.get((kind, holder))
        if used is None:
            if len(self._used) >= REMEMBERED_MAX:
                self._make_room()
            used = self._used[kind, holder] = Use(self.windows, self._mutation_windows)
            self._plan_sweep()
        return used

    def _make_room(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_idle_sweep_ms:
            self._next_idle_sweep_ms = now_ms + IDLE_SWEEP_MS
            self._forget_since(now_ms - self._looks_back_ms, keep_debts=True)
        if len(self._used) >= REMEMBERED_MAX:
            self._used.pop(next(iter(self._used)))
        self._budgets.clear()

    def _plan_sweep(self) -> None:
        if self._sweep is None:
            self._sweep = self._clock.call_later(SWEEP_MS, self._forget_idle)

    def _forget_idle(self) -> None:
        """Forget users and clients that have used nothing for long, and all that can be found again."""
        self._sweep = None
        self._budgets.clear()
        self._forget_since(self._clock.monotonic_ms() - EXPIRY_MS)
        if self._used:
            self._plan_sweep()

    def _forget_since(self, moment_ms: float, *, keep_debts: bool = False) -> None:
        """Forget users and clients that have used nothing since that moment; `keep_debts`: and owe nothing."""
        for key, used in list(self._used.items()):
            is_idle = max(used.rate.last_ms, used.bucket.last_ms) <= moment_ms
            if is_idle and not (keep_debts and used.bucket.owes):
                del self._used[key]

    def use(self, kind: QuotaType, user: str, client_id: str, value: float) -> int:
        """Count what a client takes; return for how many milliseconds it is to take nothing. For the loop's time that
        is at most one window."""
        budget = self.budget(kind, user, client_id)
        if budget is None:
            return 0
        used, now_ms = budget.used, self._clock.monotonic_ms()
        used.rate.record(value, now_ms)
        throttle_ms = used.rate.throttle_ms(budget.limit, now_ms)
        if kind is QuotaType.REQUEST:
            throttle_ms = min(throttle_ms, round(self.windows.length_ms))
        return throttle_ms

    def note_wait(self, kind: QuotaType, user: str, client_id: str, throttle_ms: int) -> None:
        """Count for the metrics how long a client waits. Of several quotas that ask for it, it is the one that asks for
        the longest time."""
        budget = self.budget(kind, user, client_id)
        if budget is not None:
            budget.used.throttled(throttle_ms, self._clock.monotonic_ms())

    def uses(self) -> Iterator[tuple[QuotaType, str, str, float, float]]:
        """Yield by kind, user and client id, "" where it is shared: the rate a second, the mean time to wait in ms."""
        now_ms = self._clock.monotonic_ms()
        for (kind, (user, client)), used in list(self._used.items()):
            yield kind, user, desanitize(client), used.rate.measure(now_ms)[0], used.throttles_ms.measure(now_ms)

    def most_at_once(self, kind: QuotaType, user: str, client_id: str) -> int | None:
        """Return the most that a client may take at first without having to wait; None: there is no limit."""
        budget = self.budget(kind, user, client_id)
        if budget is None or budget.limit == inf:
            return None
        return int(min(max(budget.limit, 0.0) * self.windows.span_seconds, BYTES_MAX))

    def mutations(self, user: str, client_id: str, *, strict: bool) -> "MutationQuota | None":
        """Return the quota on what a request creates and deletes; None: as much as it likes."""
        budget = self.budget(QuotaType.MUTATION, user, client_id)
        return None if budget is None else MutationQuota(self._clock, budget, strict=strict)


class MutationQuota:
    """Quota on mutations for one request (KIP-599): partitions created and deleted each second, in bursts."""

    def __init__(self, clock: Clock, budget: Budget, *, strict: bool) -> None:
        """`strict`: what is above the quota is refused. Otherwise it is done, and the client waits afterwards."""
        self._clock, self._budget, self._strict = clock, budget, strict
        self._until_ms = 0.0

    def take(self, partitions: int) -> bool:
        """Count partitions; False when they must not be touched, because others before them have used it up."""
        now_ms = self._clock.monotonic_ms()
        limit, used = self._budget
        owed_ms = used.bucket.throttle_ms(limit, now_ms)
        if self._strict and owed_ms:
            self._until_ms = now_ms + used.throttled(owed_ms, now_ms)
            return False
        used.bucket.take(partitions, limit, now_ms)
        if not self._strict:
            self._until_ms = now_ms + used.throttled(used.bucket.throttle_ms(limit, now_ms), now_ms)
        return True

    @property
    def throttle_ms(self) -> int:
        """Milliseconds that the client is to wait from now on."""
        return max(0, round(self._until_ms - self._clock.monotonic_ms()))


def _short(name: str) -> str:
    """Return the name, or the digest of a long one, behind a slash, which is in no name that stands in a path."""
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    return "/" + sha256(name.encode()).hexdigest()


def _holder(entity: str) -> Entity | None:
    match entity.split("/"):
        case ["users", user]:
            return (user, "")
        case ["clients", client]:
            return ("", client)
        case ["users", user, "clients", client]:
            return (user, client)
    return None


def _candidates(user: str, client: str) -> Iterator[tuple[Entity, Entity]]:
    """Yield pairs of the entity that a quota may be set for and the entity whose use is counted; the first set holds.

    An empty client id is nobody's.
    """
    if client:
        yield (user, client), (user, client)
        yield (user, DEFAULT_ENTITY), (user, client)
    yield (user, ""), (user, "")
    if client:
        yield (DEFAULT_ENTITY, client), (user, client)
        yield (DEFAULT_ENTITY, DEFAULT_ENTITY), (user, client)
    yield (DEFAULT_ENTITY, ""), (user, "")
    if client:
        yield ("", client), ("", client)
        yield ("", DEFAULT_ENTITY), ("", client)
