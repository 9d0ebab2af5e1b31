"""ListGroups (key 16), versions 0 to 5: the groups that this broker coordinates, which every broker is asked for.

Version 4 and above filter by state, 5 by type as well; all groups here are of the type "classic". While a partition of
the groups' topic is loading the error says so, and the list holds what is known.
"""

from odradek.broker.groups.group_coordinator import CLASSIC
from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

REQUEST = ListGroupsRequest
VERSIONS = (0, 5)


def handle(broker: Services, request: ListGroupsRequest, context: RequestContext) -> Outcome:
    error, groups = broker.groups.list_groups(request.states_filter, request.types_filter)
    listed = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state,
            group_type=CLASSIC,
        )
        for group in groups
    ]
    return Reply(ListGroupsResponse(error_code=error, groups=listed))
