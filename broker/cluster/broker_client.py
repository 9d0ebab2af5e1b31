"""Requests from this broker to others, and to whichever of them is the controller.

Kafka's NodeToControllerChannelManager and InterBrokerSendThread. An address comes from the metadata, and a request is
given up as soon as the metadata says that nobody need wait for its answer any more: a process that hangs keeps its
connections open, and would hold up its callers until their time is over.
"""

from collections.abc import Callable

from odradek.broker.cluster.metadata_cache import MetadataCache
from odradek.broker.cluster.peer import BrokerUnreachable, Peer
from odradek.protocol.fields import Message
from odradek.world.clock import Clock
from odradek.world.network import Network
from odradek.world.tasks import Tasks


class BrokerClient:
    """Requests of one user, on connections of its own to the addresses of one listener. Used on the loop only.

    Several requests may be in flight at once; on one connection they are handled, and answered, in their order. All
    trouble is one exception, BrokerUnreachable (an OSError): the broker or the controller is not known, nobody answers
    there, or the request was given up or comes after `close`. Whether it was carried out is unknown then.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        tasks: Tasks,
        metadata: MetadataCache,
        listener: str,
        client_id: str,
        records_bytes_max: int = 0,
    ) -> None:
        """`listener`: inter.broker.listener.name. `client_id` is what the other brokers see. `records_bytes_max`: most
        bytes of records in an answer."""
        self._network, self._clock, self._tasks, self._metadata = network, clock, tasks, metadata
        self._listener, self._client_id = listener, client_id
        self._records_bytes_max = records_bytes_max
        self._brokers: dict[int, Peer] = {}
        self._controller: tuple[int, Peer] | None = None
        self._closed = False
        metadata.subscribe(self._give_up_what_has_changed)

    async def to_controller(self, message: Message, version: int, timeout_ms: float) -> Message:
        """Return the answer of the present controller. Raises BrokerUnreachable, also when it is deposed meanwhile."""
        controller_id = self._metadata.controller_id
        if self._controller is None:
            self._controller = controller_id, self._connect(controller_id, "the controller")
        return await self._controller[1].request(message, version, timeout_ms)

    async def to_broker(self, broker_id: int, message: Message, version: int, timeout_ms: float) -> Message:
        """Return that broker's answer. Raises BrokerUnreachable, also when it dies or moves meanwhile."""
        peer = self._brokers.get(broker_id)
        if peer is None:
            peer = self._brokers[broker_id] = self._connect(broker_id, f"broker {broker_id}")
        return await peer.request(message, version, timeout_ms)

    def disconnect(self, broker_id: int) -> None:
        """Close the connection to that broker; what is in flight on it is given up."""
        peer = self._brokers.pop(broker_id, None)
        if peer is not None:
            peer.close("given up")

    def close(self) -> None:
        """Give up all that is in flight; further requests fail. Harmless twice."""
        self._closed = True
        self._metadata.unsubscribe(self._give_up_what_has_changed)
        for broker_id in tuple(self._brokers):
            self.disconnect(broker_id)
        self._depose()

    def _connect(self, broker_id: int, what: str) -> Peer:
        if self._closed:
            raise BrokerUnreachable("closed here")
        node = self._metadata.node(broker_id, self._listener)
        if node is None:
            raise BrokerUnreachable(f"{what} has no address at listener {self._listener}")
        return Peer(
            self._network, self._clock, node.host, node.port, self._client_id, self._tasks, self._records_bytes_max
        )

    def _depose(self) -> None:
        former, self._controller = self._controller, None
        if former is not None:
            former[1].close("given up")

    def _give_up_what_has_changed(self) -> None:
        for broker_id, peer in tuple(self._brokers.items()):
            if not self._is_at(broker_id, peer):
                self.disconnect(broker_id)
        if self._controller is not None:
            controller_id, peer = self._controller
            if controller_id != self._metadata.controller_id or not self._is_at(controller_id, peer):
                self._depose()

    def _is_at(self, broker_id: int, peer: Peer) -> bool:
        node = self._metadata.node(broker_id, self._listener)
        return node is not None and (node.host, node.port) == (peer.host, peer.port)


BrokerClients = Callable[[str], BrokerClient]
"""Makes a client, with connections of its own, for the user with that client id."""
