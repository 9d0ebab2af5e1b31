"""Actions of `up --console` on its brokers: kill, stop, start, freeze, cut off from ZooKeeper."""

from collections.abc import Sequence

from odradek.console import actions
from odradek.console.actions import ActionRefusedError
from odradek.console.snapshot import BrokerProcess
from odradek.local.cluster import REGISTERED, LocalCluster


class BrokersInHand:
    """The brokers that a cluster of this process has started."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._starting: set[int] = set()
        """Brokers whose new process is being made."""

    def processes(self) -> Sequence[BrokerProcess]:
        """List the processes of all brokers, with what can be done to each."""
        return [
            BrokerProcess(one.broker_id, one.pid, one.state, self._actions(one.broker_id, one.state))
            for one in self._cluster.statuses()
        ]

    def _actions(self, broker_id: int, state: str) -> list[str]:
        child = self._cluster.brokers[broker_id]
        if not child.alive:
            return [] if state.startswith(REGISTERED) or broker_id in self._starting else [actions.START]
        if child.suspended:
            return [actions.RESUME, actions.KILL]
        relay = self._cluster.relays.get(broker_id)
        ways = [] if relay is None else [actions.REJOIN if relay.is_cut else actions.ISOLATE]
        return [actions.KILL, actions.STOP, actions.SUSPEND, *ways]

    async def act(self, broker_id: int, action: str) -> None:
        """Carry an action out, and return when it is done; a stop is only asked for. Raises ActionRefusedError."""
        cluster = self._cluster
        found = {one.broker_id: one for one in self.processes()}.get(broker_id)
        if found is None:
            raise ActionRefusedError(f"there is no broker {broker_id} here")
        if action not in found.actions:
            raise ActionRefusedError(f"broker {broker_id} {found.state}: {action[:20]!r} cannot be done to it now")
        child = cluster.brokers[broker_id]
        match action:
            case actions.START:
                await self._start(broker_id)
            case actions.KILL:
                child.kill()
                await child.wait()
            case actions.STOP:
                child.ask_to_stop()
            case actions.SUSPEND:
                child.suspend()
            case actions.RESUME:
                child.resume()
            case actions.ISOLATE:
                cluster.relays[broker_id].cut()
            case actions.REJOIN:
                cluster.relays[broker_id].mend()
        cluster.tell()

    async def _start(self, broker_id: int) -> None:
        self._starting.add(broker_id)
        try:
            await self._cluster.launch(broker_id)
        except OSError as error:
            raise ActionRefusedError(f"broker {broker_id} cannot be started: {error}") from None
        finally:
            self._starting.discard(broker_id)
