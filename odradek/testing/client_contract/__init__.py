"""Contract of each public method of the clients, as coroutines that any world can run: written once.

A world gives clients: on the virtual clock, against a cluster of processes, against Apache Kafka; the asyncio ones, or
the blocking ones behind `Awaited`. Every function here whose name begins with `check_` is one part of the contract.
"""

from odradek.testing.client_contract import admin, consumer, options, original, producer
from odradek.testing.client_contract.worlds import FACES, RENAMED, ContractWorld

PARTS = (producer, consumer, admin, options, original)
SOCKET_CHECKS = {"original_producer": original.socket_check_original_producer}
"""Parts of the contract of clients that are blocking alone: not for the virtual clock."""
CHECKS = {
    name.removeprefix("check_"): check
    for part in PARTS
    for name, check in vars(part).items()
    if name.startswith("check_")
}
"""The parts of the contract, by name."""

__all__ = ["CHECKS", "FACES", "PARTS", "RENAMED", "SOCKET_CHECKS", "ContractWorld"]
