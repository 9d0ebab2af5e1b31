"""Running an application's own test under many schedules of faults, and shrinking the first one that it fails under.

    @explore(seeds=200, topics={"orders": 1})
    async def test_no_order_is_lost(cluster):
        ledger = []
        cluster.application("billing", lambda: billing(cluster.bootstrap, ledger))
        await send_orders(cluster.bootstrap)
        await cluster.calm()                                    # faults are over
        await cluster.wait_for("orders", group="billing", lag=0)
        assert sorted(ledger) == ORDERS

The schedule of a seed is drawn before its run: each fault has a time, or is tied to an answer that an application is
to get, because programs break between two steps and not at round times. A failing schedule is run again without each of
its faults, as long as it still fails; what is left is needed.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.client.aio.world import surrounding
from odradek.protocol.errors import KafkaError
from odradek.testing.cluster.options import ClusterError, Options, setting_texts
from odradek.testing.cluster.protocol_faults import ActiveFault, DropAnswer, nearest
from odradek.testing.cluster.refusals import Aim
from odradek.testing.socket_network import OUTSIDE
from odradek.testing.virtual_clock import VirtualClock, run_virtual
from odradek.testing.virtual_run import VirtualCluster, make_cluster

FAULTS_MAX = 6
WINDOW_S = 10.0
"""Faults begin within so long."""
APIS = ("Produce", "OffsetCommit", "EndTxn", "TxnOffsetCommit", "Fetch", "Produce", "OffsetCommit")
"""Answers that faults are tied to; who is named twice is chosen more often."""
ERRORS = {"Produce": "NOT_LEADER_OR_FOLLOWER", "Fetch": "NOT_LEADER_OR_FOLLOWER", "OffsetCommit": "NOT_COORDINATOR",
          "EndTxn": "COORDINATOR_NOT_AVAILABLE", "TxnOffsetCommit": "NOT_COORDINATOR"}  # fmt: skip
AFTER_MAX = 12
TRANSCRIPT_LINES = 60
Test = Callable[["ExploredCluster"], Awaitable[object]]


@dataclass(frozen=True)
class Planned:
    """A fault of a schedule."""

    kind: str
    at_s: float
    """Time at which it begins."""
    for_s: float
    """How long it lasts, where that means something."""
    broker: int
    api: str
    after: int
    """Answers of that API that are let through before, where it is tied to one."""

    def __str__(self) -> str:
        match self.kind:
            case "kill application at an answer":
                return f"the application is killed when it is to get answer {self.after + 1} to {self.api}"
            case "lose an answer" | "break a connection" | "refuse a request":
                return f"{self.kind}: number {self.after + 1} of {self.api}"
            case "kill application" | "suspend application":
                return f"{self.kind} at {self.at_s:.2f} s, for {self.for_s:.2f} s"
            case "rebalance" | "move the coordinators":
                return f"{self.kind} at {self.at_s:.2f} s"
        return f"{self.kind} {self.broker} at {self.at_s:.2f} s, for {self.for_s:.2f} s"


class _KillAtAnswer(DropAnswer):
    """Fault that handles a request, but kills the application that sent it before it gets the answer."""

    kill: Callable[[str], object]

    async def treat(self, services: Any, context: Any, reply: Any) -> Any:
        asyncio.get_running_loop().call_soon(self.kill, self.network.owner(context.peer))
        return await super().treat(services, context, reply)


class ExploredCluster(VirtualCluster):
    """A virtual cluster on which the faults of a schedule happen."""

    schedule: tuple[Planned, ...] = ()
    _under_way: "list[asyncio.Task[None]]"

    def begin(self, schedule: tuple[Planned, ...]) -> None:
        """Start the faults of a schedule, each at its time."""
        self.schedule = schedule
        self._under_way = [asyncio.ensure_future(self._carry_out(planned)) for planned in schedule]

    async def calm(self) -> None:
        """Wait until all faults of the schedule are over, drop those that did not strike, start what was killed, and
        return when all brokers know each other."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self.clear()
        await self.heal()
        for broker in self.embedded.brokers:
            await self.resume(broker.broker_id)
            if not broker.running:
                await self.restart(broker.broker_id)
        for name, application in self.applications.items():
            await self.resume_application(name)
            if not application.running and not application.ended.is_set():
                await self.restart_application(name)
        await self.wait_for(brokers=len(self.embedded.brokers), timeout=120)

    async def _carry_out(self, planned: Planned) -> None:
        try:
            await getattr(self, "_" + planned.kind.replace(" ", "_"))(planned)
        except (ClusterError, KafkaError) as impossible:  # what is to be hit is not there now
            self.note("test", f"could not {planned.kind}: {impossible}")

    # the kinds: each begins its fault, lets it last, and ends it

    async def _kill_broker(self, planned: Planned) -> None:
        await asyncio.sleep(planned.at_s)
        await self.kill(planned.broker)
        await asyncio.sleep(planned.for_s)
        await self.restart(planned.broker)

    async def _suspend_broker(self, planned: Planned) -> None:
        await asyncio.sleep(planned.at_s)
        await self.suspend(planned.broker)
        await asyncio.sleep(planned.for_s)
        await self.resume(planned.broker)

    async def _cut_clients_off_broker(self, planned: Planned) -> None:
        await asyncio.sleep(planned.at_s)
        await self.partition(planned.broker, OUTSIDE)
        await asyncio.sleep(planned.for_s)
        await self.heal(planned.broker, OUTSIDE)

    async def _kill_application(self, planned: Planned) -> None:
        await asyncio.sleep(planned.at_s)
        for name in list(self.applications):
            await self._die(name, planned.for_s)

    async def _die(self, name: str, for_s: float) -> None:
        if name in self.applications and self.applications[name].running:
            await self.kill_application(name)
            await asyncio.sleep(for_s)
            if not self.applications[name].running:
                await self.restart_application(name)

    async def _suspend_application(self, planned: Planned) -> None:
        await asyncio.sleep(planned.at_s)
        for name in list(self.applications):
            await self.suspend_application(name)
        await asyncio.sleep(planned.for_s)
        for name in list(self.applications):
            await self.resume_application(name)

    async def _kill_application_at_an_answer(self, planned: Planned) -> None:
        def kill(host: str) -> None:
            self._under_way.append(asyncio.ensure_future(self._die(host, planned.for_s)))

        self._tie(_KillAtAnswer, planned, network=self.network, kill=kill)

    async def _lose_an_answer(self, planned: Planned) -> None:
        self._tie(DropAnswer, planned, network=self.network)

    async def _break_a_connection(self, planned: Planned) -> None:
        await self.drop_connection(planned.api, after=planned.after)

    async def _refuse_a_request(self, planned: Planned) -> None:
        await self.respond(planned.api, ERRORS[planned.api], after=planned.after)

    async def _rebalance(self, planned: Planned) -> None:
        await asyncio.sleep(planned.at_s)
        for group in self.groups_now():
            await self.rebalance(group)

    async def _move_the_coordinators(self, planned: Planned) -> None:
        await asyncio.sleep(planned.at_s)
        for group in self.groups_now():
            await self.coordinator_moves(group)

    def _tie(self, kind: type[ActiveFault], planned: Planned, **values: object) -> None:
        self._add(kind, planned.kind, planned.api, Aim(), None, 1, planned.after, **values)


KINDS = (
    "kill broker", "suspend broker", "cut clients off broker", "kill application", "suspend application",
    "kill application at an answer", "kill application at an answer", "lose an answer", "lose an answer",
    "break a connection", "refuse a request", "rebalance", "move the coordinators",
)  # fmt: skip
"""Faults to choose from; who is named twice is chosen more often."""


def schedule_of(seed: int, brokers: int, kinds: Sequence[str]) -> tuple[Planned, ...]:
    """Return the faults of a seed, of these kinds. Those of one broker never overlap."""
    source = random.Random(seed)
    planned, hit = [], set()
    for _ in range(source.randint(1, FAULTS_MAX)):
        kind, broker = source.choice(kinds), source.randrange(brokers)
        if kind.endswith("broker") or kind in ("kill application", "suspend application"):
            subject = broker if kind.endswith("broker") else -1
            if subject in hit:
                continue
            hit.add(subject)
        api = source.choice(APIS)
        at_s, for_s = source.uniform(0.0, WINDOW_S), source.choice((0.5, 3.0, 15.0))
        planned.append(Planned(kind, at_s, for_s, broker, api, source.randrange(AFTER_MAX)))
    return tuple(planned)


class Found(AssertionError):  # noqa: N818 - what an exploration ends with
    """Failure of an explored test: the seed, and the smallest schedule of faults under which it fails."""

    def __init__(
        self, seed: int, tried: int, schedule: tuple[Planned, ...], error: BaseException, transcript: str
    ) -> None:
        self.seed, self.tried, self.schedule, self.error, self.transcript = seed, tried, schedule, error, transcript
        faults = "\n".join(f"  {number}. {planned}" for number, planned in enumerate(schedule, 1)) or "  none"
        super().__init__(
            f"seed {seed} ({tried} tried) fails: {type(error).__name__}: {error}\n"
            f"with these faults, of which none can be left out:\n{faults}\nwhat happened:\n{transcript}"
        )


def attempt(test: Test, options: Options, seed: int, schedule: tuple[Planned, ...]) -> tuple[Exception, str] | None:
    """Run the test under a schedule: None when it passes, else its error and what happened."""
    transcript: list[str] = []

    async def main(clock: VirtualClock) -> Exception | None:
        cluster = make_cluster(clock, options, seed, ExploredCluster)
        surrounding.set(cluster.worlds(OUTSIDE))
        try:
            await cluster.start()
            cluster.begin(schedule)
            await test(cluster)
        except Exception as error:  # noqa: BLE001 - whatever a test fails by
            transcript.append(str(await cluster.timeline()))
            return error
        finally:
            await cluster.close()
        return None

    error = run_virtual(main)
    if error is None:
        return None
    lines = "".join(transcript).splitlines()
    return error, "\n".join(lines[-TRANSCRIPT_LINES:])


def find(test: Test, options: Options, seeds: range, kinds: Sequence[str] = KINDS) -> Found | None:
    """Return the first schedule that the test fails under, shrunk; None when it passes under all."""
    for tried, seed in enumerate(seeds, 1):
        schedule = schedule_of(seed, options.brokers, kinds)
        failed = attempt(test, options, seed, schedule)
        if failed is not None:
            schedule, failed = _shrunk(test, options, seed, schedule, failed)
            return Found(seed, tried, schedule, *failed)
    return None


def _shrunk(
    test: Test, options: Options, seed: int, schedule: tuple[Planned, ...], failed: tuple[Exception, str]
) -> tuple[tuple[Planned, ...], tuple[Exception, str]]:
    """Leave out one fault after another, as long as it fails by an error of the same kind."""
    at = 0
    while at < len(schedule):
        smaller = schedule[:at] + schedule[at + 1 :]
        again = attempt(test, options, seed, smaller)
        if again is not None and type(again[0]) is type(failed[0]):
            schedule, failed, at = smaller, again, 0
        else:
            at += 1
    return schedule, failed


def explore(
    *,
    seeds: int | range = 200,
    kinds: Sequence[str] = KINDS,
    brokers: int = 3,
    topics: Mapping[str, int] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Callable[[Test], Callable[[], None]]:
    """Decorate a coroutine function `test(cluster)`, so that it runs under many schedules of faults, on virtual time.

    `seeds`: how many schedules, or a range of seeds. `kinds`: the faults to choose from. `brokers`, `topics` and
    `settings` are as for `Cluster`. The test raises Found, an AssertionError, for the first schedule that it fails
    under. Raises ClusterError for an unknown fault.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ClusterError(f"no fault {kind!r}{nearest(kind, KINDS)}")
    options = Options(brokers, setting_texts(settings), dict(topics or {}))
    wanted = range(seeds) if isinstance(seeds, int) else seeds

    def made(test: Test) -> Callable[[], None]:
        def explored() -> None:
            found = find(test, options, wanted, kinds)
            if found is not None:
                raise found

        # Not functools.wraps: pytest would look for a fixture of the name of the parameter.
        explored.__name__, explored.__doc__ = test.__name__, test.__doc__
        explored.__module__, explored.__qualname__ = test.__module__, test.__qualname__
        return explored

    return made
