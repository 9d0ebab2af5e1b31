"""UpdateMetadata (key 6), versions 0 to 8: the controller tells this broker what the cluster looks like.

Ten thousand partitions take a twentieth of a second. A large request is decoded and prepared in slices of time. Then
its epochs are checked and it is taken over, both in one piece: nobody sees half of it. The next one waits for it, also
when its connection has broken.
"""

from collections.abc import Callable
from typing import TypeAlias

from odradek.broker.network.outcomes import Outcome, Reply, RequestContext, Silent
from odradek.broker.services import Services
from odradek.protocol import codec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.protocol.primitives import Buffer
from odradek.protocol.steps import Steps
from odradek.world.time_slices import TimeSlice

REQUEST = UpdateMetadataRequest
VERSIONS = (0, 8)

LARGE_BYTES = 1 << 16
"""Size from which on a request is decoded in slices: some thousand partitions, or three milliseconds."""

Decoded: TypeAlias = tuple[UpdateMetadataRequest, int]
ToDecode: TypeAlias = Steps[Decoded]
"""A large request, of which nothing is decoded yet."""


def decoder(
    message: type[UpdateMetadataRequest], version: int
) -> Callable[[Buffer, int], tuple[UpdateMetadataRequest | ToDecode, int]]:
    """Return the decoder for the dispatcher: of a large request it keeps a copy, to be decoded by `handle`."""
    whole, stepwise = codec.decoder(message, version), codec.stepwise_decoder(message, version)

    def decode(data: Buffer, at: int) -> tuple[UpdateMetadataRequest | ToDecode, int]:
        if len(data) - at < LARGE_BYTES:
            return whole(data, at)
        return stepwise(bytes(data[at:]), 0), len(data)

    return decode


def handle(broker: Services, request: UpdateMetadataRequest | ToDecode, context: RequestContext) -> Outcome:
    if isinstance(request, UpdateMetadataRequest) and not broker.controller_requests.metadata_in_turn.locked():
        for _ in broker.metadata.share_lists(request):
            pass
        return _take_over(broker, request, context.connection)
    return _in_turn(broker, request, context.connection)


async def _in_turn(broker: Services, request: UpdateMetadataRequest | ToDecode, connection: int) -> Reply | Silent:
    async with broker.controller_requests.metadata_in_turn:
        turn = TimeSlice(broker.clock)
        whole = request if isinstance(request, UpdateMetadataRequest) else (await turn.result(request))[0]
        await turn.finish(broker.metadata.share_lists(whole))
        return _take_over(broker, whole, connection)


def _take_over(broker: Services, request: UpdateMetadataRequest, connection: int) -> Reply | Silent:
    error = broker.controller_requests.check(request.controller_epoch, request.broker_epoch)
    if error is ErrorCode.NONE:
        if broker.controller_requests.is_late(request.controller_epoch, connection):
            return Silent(close=True)
        broker.controller_requests.update_metadata(request)
    return Reply(UpdateMetadataResponse(error_code=error))
