"""Faults of the programs that use the cluster: they stand still, die and are started again, join the group and
leave it. Each lives in a process of its own, on a host of its own."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from odradek.testing.simulation.clients import SimulatedConsumer, SimulatedProducer
from odradek.testing.simulation.connectors import SimulatedConnector
from odradek.testing.simulation.faults import Faults
from odradek.testing.virtual_process import ProcessKilled, VirtualProcess, in_own_context

MakeProducer = Callable[[int, int], SimulatedProducer]
MakeMember = Callable[[str, int], SimulatedConsumer]
MakeConnector = Callable[[str, int], SimulatedConnector]
Client = SimulatedProducer | SimulatedConsumer | SimulatedConnector


@dataclass(eq=False)
class Program:
    """A producer or a member of a group in its present life."""

    host: str
    life: int
    process: VirtualProcess
    client: Client
    busy: bool = False


class ClientFaults:
    """The programs of one simulation and what befalls them; `others` draws the chances.

    `make_producer(number, life)`, `make_member(host, life)` and `make_connector(host, life)` are called inside the new
    process.
    """

    def __init__(
        self, others: Faults, make_producer: MakeProducer, make_member: MakeMember, make_connector: MakeConnector
    ) -> None:
        self._others, self._make_producer, self._make_member = others, make_producer, make_member
        self._make_connector = make_connector
        self._random, self._note, self._network = others.random, others.history.note, others.network
        self._zookeeper = others.cluster.zookeeper
        self.programs: list[Program] = []
        self.former_members: list[SimulatedConsumer] = []
        self.former_connectors: list[SimulatedConnector] = []
        self.may_be_fenced: Callable[[str], bool] = lambda name: False
        """Tells of a member whether it may be told that another process has taken its place."""
        self.working: list[asyncio.Task[None]] = []
        self._until_ms = 0.0
        self._guests = 0
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "freeze_client": self.freeze_client,
            "kill_client": self.kill_client,
            "join_group": self.join_group,
            "connector_session": self.connector_session,
        }

    @property
    def producers(self) -> list[SimulatedProducer]:
        return [one.client for one in self.programs if isinstance(one.client, SimulatedProducer)]

    @property
    def members(self) -> list[SimulatedConsumer]:
        return [one.client for one in self.programs if isinstance(one.client, SimulatedConsumer)]

    @property
    def connectors(self) -> list[SimulatedConnector]:
        return [one.client for one in self.programs if isinstance(one.client, SimulatedConnector)]

    @property
    def groups(self) -> list[list[SimulatedConsumer | SimulatedConnector]]:
        """Readers who read everything together, former members too."""
        return [[*self.members, *self.former_members], [*self.connectors, *self.former_connectors]]

    # their lives

    async def start(self, producers: int, members: int, connectors: int) -> None:
        """Start the first life of so many of each."""
        for number in range(producers):
            await self._start(f"producer-{number}", 0)
        for number in range(members):
            await self._start(f"member-{number}", 0)
        for number in range(connectors):
            await self._start(f"connector-{number}", 0)

    def work(self, until_ms: float) -> None:
        """Let the producers send until that time."""
        self._until_ms = until_ms
        for program in self.programs:
            self._work(program)

    def kill_all(self) -> None:
        """Kill every program, also those that stand still: the run is lost."""
        for program in self.programs:
            program.process.kill()

    async def _start(self, host: str, life: int) -> Program:
        async def make() -> Client:
            kind, _, number = host.rpartition("-")
            if kind == "producer":
                return self._make_producer(int(number), life)
            return (self._make_connector if kind == "connector" else self._make_member)(host, life)

        process = VirtualProcess(host)
        client = await process.run(make())
        program = Program(host, life, process, client)
        self.programs.append(program)
        if isinstance(client, SimulatedConsumer):
            follow = in_own_context(self._follow_soon)
            client.on_fenced = lambda: self._fenced(program, follow)
        return program

    def _fenced(self, program: Program, follow: Callable[[Program], None]) -> bool:
        """Tell whether a static member may be fenced; then its supervisor starts it again, unless it was to end."""
        if not self.may_be_fenced(program.client.name):
            return False
        self._note(f"{program.client.name} is fenced by a coordinator that knows its former id alone")
        if not program.busy:
            follow(program)
        return True

    def _follow_soon(self, program: Program) -> None:
        program.busy = True
        self.working.append(asyncio.ensure_future(self._follow(program)))

    async def _follow(self, program: Program) -> None:
        self._end(program)
        await self._start_in_place(program)

    async def _start_in_place(self, former: Program) -> None:
        following = await self._start(former.host, former.life + 1)
        self._note(f"{following.client.name} is there")
        self._work(following)

    def _work(self, program: Program) -> None:
        client = program.client
        if isinstance(client, SimulatedProducer):
            self.working.append(asyncio.ensure_future(self._sending(program.process, client)))

    async def _sending(self, process: VirtualProcess, producer: SimulatedProducer) -> None:
        with contextlib.suppress(ProcessKilled):
            await process.run(producer.work(self._until_ms))

    def _end(self, program: Program) -> None:
        """End a program: what it knew does not count any more, what it has read does."""
        program.process.kill()
        self._network.end_programs(program.host)
        program.client.stop()
        self.programs.remove(program)
        if isinstance(program.client, SimulatedConsumer):
            self.former_members.append(program.client)
        elif isinstance(program.client, SimulatedConnector):
            self.former_connectors.append(program.client)

    def _pick(self, kind: type = object) -> Program | None:
        free = [program for program in self.programs if not program.busy and isinstance(program.client, kind)]
        return self._random.choice(free) if free else None

    # what befalls them

    async def freeze_client(self) -> None:
        """Suspend a client for a while, as SIGSTOP does: like a long garbage collection, or a laptop that sleeps."""
        program = self._pick()
        if program is None:
            return
        program.busy = True
        self._note(f"{program.client.name} stands still")
        program.process.suspend()
        self._network.suspend_programs(program.host)
        if isinstance(program.client, SimulatedConnector):
            self._zookeeper.suspend(program.client.store)
        await self._others.pass_time(0.5, 25.0)
        self._note(f"{program.client.name} goes on")
        program.process.resume()
        self._network.resume_programs(program.host)
        if isinstance(program.client, SimulatedConnector):
            self._zookeeper.resume(program.client.store)
        program.busy = False

    async def kill_client(self) -> None:
        """Kill a client between two steps, and start another in its place."""
        program = self._pick()
        if program is None:
            return
        self._note(f"{program.client.name} is killed")
        self._end(program)
        await self._others.pass_time(0.05, 10.0)
        await self._start_in_place(program)

    async def join_group(self) -> None:
        """Have another member join the group for a while, and leave it with or without a word."""
        self._guests += 1
        program = await self._start(f"guest-{self._guests}", 0)
        member = program.client
        assert isinstance(member, SimulatedConsumer)
        self._note(f"{member.name} joins")
        program.busy = True
        await self._others.pass_time(0.2, 12.0)
        if self._random.random() < 0.7:
            await program.process.run(member.leave())
        self._note(f"{member.name} is gone")
        self._end(program)

    async def connector_session(self) -> None:
        """Have a connector lose its session, ZooKeeper for a while, or an answer; or go to another server of it."""
        for _ in range(self._random.randint(1, 4)):
            program = self._pick(SimulatedConnector)
            if program is None:
                return
            assert isinstance(program.client, SimulatedConnector)
            store, name = program.client.store, program.client.name
            match self._random.choice(("session", "away", "answer", "server")):
                case "session" if store.link_up and self._zookeeper.has_session(store.session_id):
                    self._note(f"{name}: session expires")
                    self._zookeeper.expire_session(store.session_id)
                case "away":
                    program.busy = True
                    self._note(f"{name} loses ZooKeeper")
                    self._zookeeper.partition(store, unnoticed_ms=self._random.choice((0, 2_000, 4_000)))
                    await self._others.pass_time(0.5, 12.0)
                    self._note(f"{name} has ZooKeeper back")
                    self._zookeeper.heal(store)
                    program.busy = False
                case "answer":
                    self._note(f"{name}: an answer of ZooKeeper is lost")
                    store.lose_next_answer()
                case "server":
                    self._note(f"{name} goes to another server of ZooKeeper")
                    store.move()
            await self._others.pass_time(0.05, 3.0)
