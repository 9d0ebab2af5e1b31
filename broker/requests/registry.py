"""Which module answers which API: the only list of them. One line per request that is served.

What such a module consists of: odradek.broker.requests.modules.
"""

from collections.abc import Sequence
from types import ModuleType

from odradek.broker.requests import (
    api_versions,
    delete_groups,
    describe_cluster,
    describe_groups,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    sync_group,
    update_metadata,
)
from odradek.broker.requests.modules import by_key, served_versions

MODULES: Sequence[ModuleType] = (
    api_versions,
    delete_groups,
    describe_cluster,
    describe_groups,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    sync_group,
    update_metadata,
)

HANDLERS = by_key(MODULES)
SERVED = served_versions(HANDLERS)
