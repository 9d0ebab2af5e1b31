"""One broker's life: what is started in which order, and how it ends.

Start: the directories are locked, the ports bound, ZooKeeper asked who we are, the logs opened, requests served, and only
then is the broker registered, for from that moment on the controller may give it work. Every failure before that is
one clear error and leaves nothing damaged. Stop, in a controlled way: leaders move first, then requests stop, logs are
closed clean, and the session's end takes the registration away.
"""

import asyncio
import logging

from odradek.broker.assembly import Assembly, assemble
from odradek.broker.config import BrokerConfig
from odradek.broker.log.failure import StorageFailure
from odradek.broker.log.manager import LogManager
from odradek.broker.network.server import SocketServer
from odradek.broker.tasks.membership import Membership
from odradek.broker.tasks.shutdown import move_leaders_away
from odradek.broker.world import World
from odradek.world.clock import Timer
from odradek.zk_schema.store import Connected, Expired, Store, StoreEvent, Suspended

log = logging.getLogger(__name__)


class StartFailure(Exception):
    """Why a broker could not start: one line for the person who started it."""
