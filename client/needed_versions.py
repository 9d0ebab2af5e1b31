"""What is not asked of old brokers, nor believed.

As in Kafka's clients, a request is not sent in a version without a field that it needs: the broker would do something
else. Fields that brokers do well without are not here, such as whether to return synonyms of settings; nor those whose
senders look at the version themselves (transactions).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from odradek.client.errors import UnsupportedByBroker
from odradek.protocol.fields import Message
from odradek.protocol.messages.create_acls import CreateAclsRequest
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_offsets import MAX_TIMESTAMP, ListOffsetsRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.messages.update_features import UpdateFeaturesRequest

FIRST_METADATA_WITH_GOOD_EPOCHS = 9
ANY_PATTERN, LITERAL = 1, 3
"""Pattern types of access lists. Before prefixes came, any was literal."""


class Need(NamedTuple):
    """A need of some requests of a kind."""

    version: int
    what: str
    has_it: Callable[[Any], object]
    """Returns something true for a request that has this need."""


def _a_time(wanted: Callable[[int], bool]) -> Callable[[ListOffsetsRequest], bool]:
    return lambda request: any(wanted(one.timestamp) for topic in request.topics for one in topic.partitions)


NEEDS: Mapping[type[Message], tuple[Need, ...]] = {
    CreateAclsRequest: (
        Need(1, "a pattern of names", lambda it: any(one.resource_pattern_type != LITERAL for one in it.creations)),
    ),
    DeleteAclsRequest: (
        Need(
            1,
            "a pattern of names",
            lambda it: any(one.pattern_type_filter not in (ANY_PATTERN, LITERAL) for one in it.filters),
        ),
    ),
    DescribeAclsRequest: (
        Need(1, "a pattern of names", lambda it: it.pattern_type_filter not in (ANY_PATTERN, LITERAL)),
    ),
    CreateDelegationTokenRequest: (Need(3, "an owner", lambda it: it.owner_principal_name is not None),),
    CreateTopicsRequest: (Need(1, "validate_only", lambda it: it.validate_only),),
    ElectLeadersRequest: (Need(1, "an unclean election", lambda it: it.election_type != 0),),
    FindCoordinatorRequest: (Need(1, "a transactional.id", lambda it: it.key_type != 0),),
    JoinGroupRequest: (Need(5, "group.instance.id", lambda it: it.group_instance_id is not None),),
    LeaveGroupRequest: (
        Need(3, "more than one member", lambda it: len(it.members) > 1),
        Need(3, "group.instance.id", lambda it: any(one.group_instance_id is not None for one in it.members)),
    ),
    ListGroupsRequest: (
        Need(4, "a filter of states", lambda it: bool(it.states_filter)),
        Need(5, "a filter of types", lambda it: it.types_filter and "classic" not in map(str.lower, it.types_filter)),
    ),
    ListOffsetsRequest: (
        Need(1, "a time", _a_time(lambda time_ms: time_ms >= 0)),
        Need(2, "isolation.level=read_committed", lambda it: it.isolation_level != 0),
        Need(7, "the offset of the highest timestamp", _a_time(lambda time_ms: time_ms == MAX_TIMESTAMP)),
    ),
    ListTransactionsRequest: (Need(1, "a filter of durations", lambda it: it.duration_filter >= 0),),
    UpdateFeaturesRequest: (Need(1, "validate_only", lambda it: it.validate_only),),
}


def check_version(message: Message, version: int, address: str) -> None:
    """Raise UnsupportedByBroker if a version that a broker shares with this client lacks what a request needs."""
    for need in NEEDS.get(type(message), ()):
        if version < need.version and need.has_it(message):
            name = type(message).__name__.removesuffix("Request")
            raise UnsupportedByBroker(
                f"broker {address} serves {name} up to version {version}: {need.what} needs version {need.version}"
            )


def drop_bad_epochs(answer: Message, version: int) -> None:
    """Drop the leader epochs of metadata in which they may be out of date: before Kafka 2.4, as long as a partition is
    reassigned. Its leader would refuse requests with them."""
    if version < FIRST_METADATA_WITH_GOOD_EPOCHS and isinstance(answer, MetadataResponse):
        for topic in answer.topics:
            for one in topic.partitions:
                one.leader_epoch = -1
