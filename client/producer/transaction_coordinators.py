"""Asks the coordinator of a transactional id, or of a group, until it has answered. Loop-thread only."""

from collections.abc import Callable
from typing import TypeVar

from odradek.client.backoff import backoff_ms
from odradek.client.calls import COORDINATOR_CONNECTION
from odradek.client.cluster import GROUP_COORDINATOR, TRANSACTION_COORDINATOR, Cluster
from odradek.client.errors import BrokerUnreachable, ClientError, UnsupportedByBroker
from odradek.client.producer.transaction_requests import (
    ADD_PARTITIONS_HIGHEST_VERSION,
    COORDINATOR_MOVED,
    Verdict,
    verdict,
)
from odradek.client.versions import common_version
from odradek.client.wakeup import sleep_ms
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.fields import Message
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse

Response = TypeVar("Response", bound=Message)
FIRST_PAUSE_MS = 20.0
"""Before a request is repeated for the first time: the markers of the transaction before take about as long."""


class Pointless(Exception):  # noqa: N818 - named after what has happened
    """The transaction has moved on: what was asked for need not be repeated."""


class Coordinators:
    """Those that one transactional producer needs, as found last."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._found: dict[tuple[int, str], int] = {}

    async def ask(
        self,
        request: Message,
        response: type[Response],
        errors: Callable[[Response], ErrorCode],
        *,
        group_id: str | None = None,
        lowest_version: int = 0,
        wanted: Callable[[], bool] = lambda: True,
    ) -> tuple[ErrorCode, Response | None]:
        """Return what the transaction's coordinator says, or the group's: never an error that says `come again`.

        `errors` gives the error of an answer. NOT_COORDINATOR, CONCURRENT_TRANSACTIONS and their like, and connections
        that break, are waited out with a growing pause, for however long; before each attempt `wanted` is asked.
        UNSUPPORTED_VERSION below `lowest_version`, where the request would say less than it must. Raises Pointless when
        it is not wanted any more.
        """
        failures = 0
        while wanted():
            error, answer = await self._attempt(request, response, errors, group_id, lowest_version)
            if error is ErrorCode.NONE or verdict(error) is not Verdict.AGAIN:
                return error, answer
            failures += 1
            longest_ms = self._cluster.config.retry_backoff_max_ms
            await sleep_ms(self._cluster.clock, backoff_ms(FIRST_PAUSE_MS, longest_ms, failures, self._cluster.random))
        raise Pointless

    async def _attempt(
        self,
        request: Message,
        response: type[Response],
        errors: Callable[[Response], ErrorCode],
        group_id: str | None,
        lowest_version: int,
    ) -> tuple[ErrorCode, Response | None]:
        place = (TRANSACTION_COORDINATOR, self._transactional_id)
        if group_id is not None:
            place = (GROUP_COORDINATOR, group_id)
        highest_version = ADD_PARTITIONS_HIGHEST_VERSION if response is AddPartitionsToTxnResponse else None
        answer = None
        try:
            connection = await self._cluster.connection(await self._find(place), COORDINATOR_CONNECTION)
            if common_version(type(request), connection.served, connection.address, highest_version) < lowest_version:
                return ErrorCode.UNSUPPORTED_VERSION, None
            timeout_ms = self._cluster.config.request_timeout_ms
            answer = await connection.request(request, response, timeout_ms, highest_version=highest_version)
            error = errors(answer)
        except BrokerUnreachable:
            error = ErrorCode.NETWORK_EXCEPTION
        except UnsupportedByBroker:
            error = ErrorCode.UNSUPPORTED_VERSION
        except ClientError:
            raise
        except KafkaError as refused:
            error = refused.code
        if error in COORDINATOR_MOVED:
            self._found.pop(place, None)
        return error, answer

    async def _find(self, place: tuple[int, str]) -> int:
        if place not in self._found:
            kind, key = place
            self._found[place] = await self._cluster.find_coordinator(key, kind)
        return self._found[place]
