"""Sequential znodes by which one process tells the others to look somewhere.

/config/changes/config_change_…               somebody changed settings (every broker looks)
/isr_change_notification/isr_change_…         a leader changed its ISR itself, brokers before 2.7 (the controller looks)
/log_dir_event_notification/log_dir_event_…   a broker lost a log directory (the controller looks)

Readers remember the highest number that they have seen. The controller deletes the last two kinds when it has obeyed;
the changes of settings are deleted by any reader when they are older than CHANGE_EXPIRATION_MS.
"""

from dataclasses import dataclass

from odradek.zk_schema.znodes.configs import CLIENTS, TOPICS
from odradek.zk_schema.znodes.json_data import Fields, dump
from odradek.zk_schema.znodes.topics import PartitionKey

CONFIG_CHANGES_PATH = "/config/changes"
CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES_PATH}/config_change_"
ISR_CHANGE_PATH = "/isr_change_notification"
ISR_CHANGE_PREFIX = f"{ISR_CHANGE_PATH}/isr_change_"
LOG_DIR_EVENT_PATH = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENT_PATH}/log_dir_event_"

CHANGE_EXPIRATION_MS = 15 * 60 * 1000
LOG_DIR_FAILURE = 1

SEQUENCE_DIGITS = 10


def has_sequence_number(name: str) -> bool:
    """Tell whether ZooKeeper may have made this name; others were put there by hand, and tell nothing."""
    return len(name) > SEQUENCE_DIGITS and name[-SEQUENCE_DIGITS:].isdecimal()


def sequence_number(path: str) -> int:
    """Return the number that ZooKeeper appended to a path or name."""
    return int(path[-SEQUENCE_DIGITS:])


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Notification that the settings of an entity have changed.

    Version 1 (0.9):  {"version":1,"entity_type":"topics","entity_name":"t"}, of topics and clients only
    Version 2 (0.11): {"version":2,"entity_path":"users/alice/clients/c1"}
    """

    entity: str
    """Type and name of the entity, as configs.entity_path takes them: `topics/t`."""

    def encode(self) -> bytes:
        return dump({"version": 2, "entity_path": self.entity})

    @classmethod
    def decode(cls, data: bytes) -> "ConfigChange":
        """Decode a change of settings, of either version. Raises BadZnode."""
        fields = Fields(CONFIG_CHANGES_PATH, data)
        if fields.version(1, 2) == 2:
            entity = fields.text("entity_path")
        else:
            entity = f"{fields.text('entity_type')}/{fields.text('entity_name')}"
            if fields.text("entity_type") not in (TOPICS, CLIENTS):
                raise fields.bad("version 1 is for topics and clients")
        if not all(entity.partition("/")):
            raise fields.bad(f"{entity!r} is not an entity")
        return cls(entity)


def decode_isr_change(data: bytes) -> set[PartitionKey]:
    """Decode version 1: {"version":1,"partitions":[{"topic":"t","partition":0}]}. Raises BadZnode."""
    fields = Fields(ISR_CHANGE_PATH, data)
    return {(item.text("topic"), item.integer("partition")) for item in fields.objects("partitions")}


def encode_log_dir_event(broker_id: int) -> bytes:
    """Encode as version 1: {"version":1,"broker":1,"event":1}; 1, a directory failed, is the only event there is."""
    return dump({"version": 1, "broker": broker_id, "event": LOG_DIR_FAILURE})


def decode_log_dir_event(data: bytes) -> int:
    """Return the broker that lost a directory. Raises BadZnode."""
    return Fields(LOG_DIR_EVENT_PATH, data).integer("broker")
