"""One broker's objects, put together. Nothing is started here but tasks that wait for work."""

from dataclasses import dataclass

from odradek.broker.config import BrokerConfig
from odradek.broker.coordinators import InternalTopics, ReplicatedGroupStorage
from odradek.broker.groups.config import GroupConfig
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.identity import Identity
from odradek.broker.log.manager import LogManager
from odradek.broker.metadata import CONSUMER_OFFSETS, MetadataCache, Node
from odradek.broker.network.limits import ConnectionLimits
from odradek.broker.network.peer import Peer
from odradek.broker.network.server import SocketServer
from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.broker.replication.control import ReplicaControl
from odradek.broker.replication.following import FollowingLimits
from odradek.broker.replication.manager import ReplicaManager
from odradek.broker.replication.sessions import FetchSessionCache
from odradek.broker.requests.dispatch import Dispatcher
from odradek.broker.requests.registry import HANDLERS, SERVED
from odradek.broker.services import Services
from odradek.broker.tasks.altering import PartitionAltering
from odradek.broker.tasks.fetching import FollowerFetching, PeerFactory
from odradek.broker.tasks.producer_ids import ProducerIds
from odradek.broker.world import World
from odradek.controller.config import ControllerConfig
from odradek.zk_schema.store import Store


@dataclass(slots=True)
class Assembly:
    """What the server starts and stops."""

    services: Services
    connect: PeerFactory
    followings: FollowerFetching
    altering: PartitionAltering
    sockets: SocketServer
