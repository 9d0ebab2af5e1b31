"""ApiVersions (key 18), versions 0 to 4: which APIs and versions this broker serves.

It is a client's first request on a connection, and allowed before it has authenticated. The ranges are those of the
registry. No feature is supported or finalized: a finalized `transaction.version` or `group.version` would switch newer
clients to protocols that a broker in ZooKeeper mode does not have. A version that we do not know is answered by the
dispatcher, which must not read its body (KIP-511).
"""

import re
from collections.abc import Mapping

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

REQUEST = ApiVersionsRequest
VERSIONS = (0, 4)
FIRST_VERSION_WITH_CLIENT_SOFTWARE = 3
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Pattern of names and versions of client software (KIP-511)."""


def handle(broker: Services, request: ApiVersionsRequest, context: RequestContext) -> Outcome:
    if context.api_version >= FIRST_VERSION_WITH_CLIENT_SOFTWARE and not names_its_software(request):
        return Reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
    return Reply(ApiVersionsResponse(api_keys=advertised(broker.served_versions)))


def names_its_software(request: ApiVersionsRequest) -> bool:
    """Tell whether name and version of the client's software are well formed."""
    return all(SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version))


def advertised(served: Mapping[int, tuple[int, int]]) -> list[ApiVersion]:
    """Return the answer's list."""
    return [
        ApiVersion(api_key=key, min_version=lowest, max_version=highest) for key, (lowest, highest) in served.items()
    ]


def unsupported_version() -> ApiVersionsResponse:
    """Return the answer, always in version 0, to an ApiVersions request of a version that we do not serve."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised({REQUEST.API_KEY: VERSIONS})
    )
