"""Faults that wait for the moment in which they matter: situations that chance alone brings about in few runs.

Each chooses a partition and leads its brokers, step by step, to where a certain rule is all that stands between the
cluster and a lost record.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

from odradek.protocol.messages.fetch import FetchRequest
from odradek.testing.embedded import EmbeddedBroker
from odradek.testing.simulation.directing import Cast, Director, controls
from odradek.testing.simulation.faults import Faults
from odradek.testing.simulation.loose_topic import TOPIC as LOOSE
from odradek.testing.simulation.repeated_requests import RepeatedRequests
from odradek.zk_schema.store import Delete, MultiFailed
from odradek.zk_schema.znodes.controller import CONTROLLER_PATH

SLOW_WRITE_MS = (4_600.0, 5_200.0)
"""Longer than a follower may lag (`replica.lag.time.max.ms`), shorter than a session."""
SLOW_ANSWER_MS = (250.0, 400.0)
SLOW_ELECTION_MS = (20.0, 20.0)
UNTIL_READ_S = (0.03, 0.1)
"""Time after which, with such answers, a candidate may have read the epoch and not written yet."""
UNTIL_SEEN_S = (0.05, 0.1)
"""Time after which one that is connected again has seen whose the znode of the controller is."""
UNEVEN_MS = (0.1, 400.0)


class AwkwardMoments(Director):
    """Situations on the brokers of one cluster."""

    def __init__(self, others: Faults, requests: RepeatedRequests) -> None:
        super().__init__(others, requests)
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "late_growth": self.late_growth,
            "late_proposal": self.late_proposal,
            "behind_and_dead": self.behind_and_dead,
            "there_and_back": self.there_and_back,
            "take_office": self.take_office,
            "late_candidate": self.late_candidate,
            "parting_histories": self.parting_histories,
            "unheard_answers": self.unheard_answers,
            "last_in_sync": self.last_in_sync,
            "unheard_election": self.unheard_election,
        }

    # what happens

    async def late_growth(self) -> None:
        """The ISR is to grow, and the controller's write is long under way: meanwhile the one who joins falls behind
        again, or another one has caught up as well."""
        cast = self.cast()
        if cast is None:
            return
        with self.reserved(cast):
            both = self.random.random() < 0.4
            joining = cast.followers if both else cast.followers[:1]
            away = {broker.broker_id for broker in joining}
            self.note(f"{cast.topic}-{cast.index}: {sorted(away)} are to leave the ISR of {cast.leader.host}")
            with self.apart(cast.leader, joining):
                left = await self.until(lambda: (led := cast.led) is None or not away & led.maximal_isr)
            if not left or cast.led is None:
                return
            self.note(f"{cast.topic}-{cast.index}: and to join it again, slowly")
            with self.others.zookeeper_latency.at(SLOW_WRITE_MS):
                await self.until(lambda: (led := cast.led) is None or bool(away & led.maximal_isr))
                with self.apart(cast.leader, cast.followers[:1]):
                    await asyncio.sleep(self.random.uniform(5.0, 7.0))

    async def late_proposal(self) -> None:
        """A leader proposes a follower for the ISR, and the controller hears of it when that one has died and come
        back: what it had fetched before says nothing any more."""
        cast = self.cast()
        active = [broker for broker in self.cluster.brokers if broker.running and controls(broker)]
        if cast is None or not active or cast.leader is active[0]:
            return
        joining = next(broker for broker in cast.followers if broker is not active[0])
        with self.reserved(cast):
            self.note(f"{cast.topic}-{cast.index}: {cast.leader.host} is to propose {joining.host}, unheard")
            with self.apart(cast.leader, [joining]):
                await self.until(lambda: (led := cast.led) is None or joining.broker_id not in led.maximal_isr)
            self.network.cut(cast.leader.host, active[0].host, one_way=True)
            if await self.until(lambda: (led := cast.led) is not None and joining.broker_id in led.maximal_isr):
                await self.others.kill_and_start(joining)
            self.network.heal_way(cast.leader.host, active[0].host)

    async def behind_and_dead(self) -> None:
        """A follower is behind, and dies with its leader: whoever leads next does not know what was acknowledged, and
        has the follower back before its own watermark has moved."""
        cast = self.cast()
        if cast is None:
            return
        behind = cast.followers[0]
        with self.reserved(cast):
            self.note(f"{cast.topic}-{cast.index}: {behind.host} falls behind {cast.leader.host}, and both die")
            with self.apart(cast.leader, [behind]):
                await self.until(lambda: (led := cast.led) is None or led.log.log_end_offset > led.high_watermark)
                for broker in (cast.leader, behind):
                    if broker.running:
                        broker.kill()
            heir = replace(cast, leader=cast.followers[1])
            await self.until(lambda: heir.led is not None)
            with self.others.network_latency.at(SLOW_ANSWER_MS):
                await self.others.start(behind)
                await asyncio.sleep(self.random.uniform(1.0, 5.0))
            await self.others.start(cast.leader)

    async def parting_histories(self) -> None:
        """A leader writes what not all of its followers copy, and dies. Another one leads and writes as well, until the
        first is back: whoever has more than the new leader has to find out where their histories part."""
        for _ in range(self.random.randint(1, 3)):
            cast = self.cast()
            if cast is None:
                return
            without = cast.followers[: self.random.randint(0, 2)]
            latency = self.others.network_latency
            chosen = self.random.choice((latency.now, UNEVEN_MS)) if without else UNEVEN_MS
            with self.reserved(cast), latency.at(chosen):
                await self._part(cast, without)

    async def _part(self, cast: Cast, without: list[EmbeddedBroker]) -> None:
        self.note(f"{cast.topic}-{cast.index}: {cast.leader.host} is to write without {len(without)}, and to die")
        if without:
            with self.apart(cast.leader, without):
                await self.until(lambda: (led := cast.led) is None or led.log.log_end_offset > led.high_watermark)
                await asyncio.sleep(self.random.uniform(0.0, 1.0))
                await self._inherit(cast)
        else:
            await self.until(lambda: _is_uneven(cast))
            with self.apart(cast.leader, cast.followers):
                await self._inherit(cast)
        await self.others.pass_time(0.0, 3.0)
        if not cast.leader.alive:
            await self.others.start(cast.leader)
        await self.until(self.others.all_in_sync)

    async def _inherit(self, cast: Cast) -> None:
        """Kill the leader, and wait until one of the followers leads."""
        if cast.leader.running:
            cast.leader.kill()
        heirs = [replace(cast, leader=follower) for follower in cast.followers]
        await self.until(lambda: any(heir.led is not None for heir in heirs))

    async def there_and_back(self) -> None:
        """The leadership of a partition goes from one broker to another and back, several times in quick succession."""
        led = self.led()
        if not led:
            return
        chosen = self.random.choice(led)
        administrator, partition = self.others.administrator, (chosen.topic, chosen.index)
        for _ in range(self.random.randint(2, 6)):
            await administrator.give_the_lead_to_the_next(partition)
            await asyncio.sleep(self.random.choice((0.0, 0.3)) * self.random.random())

    async def take_office(self) -> None:
        """Delete the controller's znode, as administrators do to have another one elected. The present one has
        elections to write, stands still meanwhile, and goes on in a session that lives, not knowing yet."""
        for _ in range(self.random.randint(1, 3)):
            active = self.others.free_controller()
            if active is None:
                return
            self.others.busy.add(active.broker_id)
            asked = asyncio.ensure_future(self.others.administrator.elect_leaders())
            await asyncio.sleep(self.random.uniform(0.0, 0.05))
            self.note(f"{active.host} stands still, and the znode of the controller is deleted")
            active.suspend()
            self._depose()
            await asyncio.sleep(self.random.uniform(0.3, 3.0))
            active.resume()
            await asked
            self.others.busy.discard(active.broker_id)

    async def late_candidate(self) -> None:
        """A broker stands still with the controller epoch that it has read to be elected. Another one is elected, and
        deposed as soon as it goes on: its own election must fail."""
        for _ in range(self.random.randint(1, 4)):
            candidate = self.others.pick()
            if candidate is None or controls(candidate):
                return
            self.others.busy.add(candidate.broker_id)
            self.note(f"{candidate.host} is to be elected by an old epoch")
            with self.others.zookeeper_latency.at(SLOW_ELECTION_MS):
                self._depose()
                await asyncio.sleep(self.random.uniform(*UNTIL_READ_S))
                candidate.suspend()
                await self.until(lambda: any(one.running and controls(one) for one in self.cluster.brokers))
                await asyncio.sleep(0.1)
                self._depose()
                candidate.resume()
                await asyncio.sleep(0.2)
            self.others.busy.discard(candidate.broker_id)

    async def unheard_election(self) -> None:
        """A broker is elected and does not hear of it. It sees that the znode is its own, and stands still before it
        has read the epoch; another one is elected meanwhile: that epoch is not its own."""
        for _ in range(self.random.randint(1, 4)):
            if self.others.busy or not self.cluster.zookeeper.serving:
                return
            with self.others.zookeeper_latency.at(SLOW_ELECTION_MS):
                self._depose()
                await self.until(lambda: self._elected_unknowing() is not None)
                elected = self._elected_unknowing()
                if elected is not None:
                    self.others.busy.add(elected.broker_id)
                    self.note(f"{elected.host} is elected, and does not hear of it")
                    elected.store.move()
                    await asyncio.sleep(self.random.uniform(*UNTIL_SEEN_S))
                    elected.suspend()
                    self._depose()
                    await self.until(lambda: any(one.running and controls(one) for one in self.cluster.brokers))
                    elected.resume()
                    await asyncio.sleep(0.3)
                    self.others.busy.discard(elected.broker_id)

    def _elected_unknowing(self) -> EmbeddedBroker | None:
        """Return the broker that ZooKeeper has for the controller, and that has had no answer yet."""
        znode = self.cluster.zookeeper.tree.get(CONTROLLER_PATH)
        free = [one for one in self.cluster.brokers if self.others.is_free(one) and not controls(one)]
        return next((one for one in free if znode is not None and one.store.session_id == znode.owner), None)

    def _depose(self) -> None:
        with contextlib.suppress(MultiFailed):  # it has resigned meanwhile
            self.cluster.zookeeper.commit([Delete(CONTROLLER_PATH)], 0)

    async def unheard_answers(self) -> None:
        """Give the controller work, and lose one of ZooKeeper's answers meanwhile: it must find out what is written."""
        administrator = self.others.administrator
        for _ in range(self.random.randint(2, 6)):
            active = self.others.free_controller()
            if active is None:
                return
            work = self.random.choice((administrator.change_topics, administrator.elect_leaders))
            asked = asyncio.ensure_future(work())
            await asyncio.sleep(self.random.uniform(0.0, 0.03))
            if active.running:
                self.note(f"{active.host}, the controller: an answer of ZooKeeper is lost")
                active.store.lose_next_answer()
            await asked
            await self.others.pass_time(0.0, 1.0)

    async def last_in_sync(self) -> None:
        """Cut all followers off a leader until it is alone in the ISR; then it dies, and comes back later."""
        cast = self.cast(self.random.choice((LOOSE, LOOSE, None)))
        if cast is None:
            return
        fetching = [self.requests.way(FetchRequest.API_KEY, one.host, cast.leader.host) for one in cast.followers]
        with self.reserved(cast):
            self.note(f"{cast.topic}-{cast.index}: {cast.leader.host} is to be alone in the ISR, and to die")
            for way in fetching:
                if way is not None:
                    way.stall()
            await self.until(lambda: (led := cast.led) is None or led.committed_isr == {cast.leader.broker_id})
            await asyncio.sleep(self.random.uniform(0.0, 1.0))
            if cast.leader.running:
                cast.leader.kill()
            for way in fetching:
                if way is not None:
                    way.go_on()
            await self.others.pass_time(6.5, 12.0)
            await self.others.start(cast.leader)


def _is_uneven(cast: Cast) -> bool:
    """Tell whether he who is going to lead has less than the other one, who does not know how much is committed."""
    led = cast.led
    if led is None:
        return True
    order = sorted(cast.followers, key=lambda broker: led.replicas.index(broker.broker_id))
    less, more = (cast.replica(broker) for broker in order)
    if less is None or more is None:
        return True
    return less.log.log_end_offset < more.log.log_end_offset and more.high_watermark < led.high_watermark
