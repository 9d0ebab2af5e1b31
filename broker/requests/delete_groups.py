"""DeleteGroups (key 42), versions 0 to 2: forget groups that have no members, with all their offsets."""

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

REQUEST = DeleteGroupsRequest
VERSIONS = (0, 2)


def handle(broker: Services, request: DeleteGroupsRequest, context: RequestContext) -> Outcome:
    results = [
        DeletableGroupResult(group_id=group_id, error_code=broker.groups.delete(group_id))
        for group_id in dict.fromkeys(request.groups_names)
    ]
    return Reply(DeleteGroupsResponse(results=results))
