"""The persistent znodes that every broker makes sure of before it does anything else (Kafka's PersistentZkPaths)."""

from odradek.zk_schema.znodes.admin import DELETE_TOPICS_PATH
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, BROKER_SEQUENCE_ID_PATH
from odradek.zk_schema.znodes.cluster import PRODUCER_ID_BLOCK_PATH
from odradek.zk_schema.znodes.configs import ENTITY_TYPES, entity_type_path
from odradek.zk_schema.znodes.consumers import CONSUMERS_PATH
from odradek.zk_schema.znodes.notifications import CONFIG_CHANGES_PATH, ISR_CHANGE_PATH, LOG_DIR_EVENT_PATH
from odradek.zk_schema.znodes.topics import TOPICS_PATH

TOPMOST_PATHS = (
    CONSUMERS_PATH,
    BROKER_IDS_PATH,
    TOPICS_PATH,
    CONFIG_CHANGES_PATH,
    DELETE_TOPICS_PATH,
    BROKER_SEQUENCE_ID_PATH,
    ISR_CHANGE_PATH,
    PRODUCER_ID_BLOCK_PATH,
    LOG_DIR_EVENT_PATH,
    *(entity_type_path(entity_type) for entity_type in ENTITY_TYPES),
)
