"""Common parts of the handlers of a producer's transaction requests."""

from collections.abc import Callable
from typing import TypeVar

from odradek.broker.network.outcomes import LaterReply, Outcome
from odradek.protocol.errors import ErrorCode
from odradek.protocol.fields import Message

M = TypeVar("M", bound=Message)

FIRST_VERSION_WITH_FENCED = 2
"""Version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that knows PRODUCER_FENCED (KIP-588)."""


def known_to(error: ErrorCode, version: int, first_version_with_fenced: int = FIRST_VERSION_WITH_FENCED) -> ErrorCode:
    """Return `error` as clients of that version know it: older ones have INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_version_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def answered_later(ask: Callable[[Callable[[ErrorCode], object]], None], response: Callable[[ErrorCode], M]) -> Outcome:
    """Call `ask` with the callback that the coordinator answers by; the outcome is the `response` to its error."""
    reply = LaterReply[M]()
    ask(lambda error: reply.give(response(error)))
    return reply.outcome()
