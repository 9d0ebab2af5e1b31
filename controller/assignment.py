"""The choice of brokers for the replicas of new partitions (Kafka's AdminUtils.assignReplicasToBrokers).

Leaders go round the brokers; the second replicas of one broker's partitions are spread over the others, by a shift that
grows with each round. With racks, no rack holds two replicas of a partition while another holds none.
"""

import random
from collections.abc import Mapping, Sequence

from odradek.protocol.errors import ErrorCode, KafkaError


def assign_replicas(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Choose the replicas of `partitions` partitions from number `first_partition` on, the preferred leader first.

    `racks` are the live brokers and their racks; racks count when all brokers have one. `start` is the place of the
    first leader among the brokers, `shift` the distance of the second replica; both are random for a new topic, and
    chosen to go on where it ends when one is extended.

    Raises KafkaError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR.
    """
    if partitions <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.",
        )
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    brokers = alternate_racks(known) if len(known) == len(racks) else sorted(racks)
    assigned = {}
    rounds_before = max(first_partition - 1, 0) // len(brokers)
    for partition in range(first_partition, first_partition + partitions):
        round_shift = shift + partition // len(brokers) - rounds_before
        order = _order(brokers, (partition + start) % len(brokers), round_shift, known)
        assigned[partition] = _choose(order, replication_factor, known if len(known) == len(racks) else {})
    return assigned


def random_start(racks: Mapping[int, str | None], randomness: random.Random) -> tuple[int, int]:
    """Draw `start` and `shift` for a new topic."""
    count = max(len(racks), 1)
    return randomness.randrange(count), randomness.randrange(count)


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """List the brokers so that neighbours are in different racks: the first of each, then the second of each, …"""
    by_rack = [sorted(broker for broker in racks if racks[broker] == rack) for rack in sorted(set(racks.values()))]
    longest = max(map(len, by_rack), default=0)
    return [brokers[place] for place in range(longest) for brokers in by_rack if place < len(brokers)]


def _order(brokers: Sequence[int], first: int, shift: int, racks: Mapping[int, str]) -> list[int]:
    """Return the first replica's broker, then all others in the order in which they are to hold further replicas."""
    others = len(brokers) - 1
    jump = shift * len(set(racks.values())) if len(racks) == len(brokers) else shift
    return [brokers[first]] + [brokers[(first + 1 + (jump + k) % others) % len(brokers)] for k in range(others)]


def _choose(order: Sequence[int], replication_factor: int, racks: Mapping[int, str]) -> tuple[int, ...]:
    """Choose the first brokers, those of racks without a replica before others (`racks` empty: just the first).

    Kafka walks round the order and starts a rack anew when all racks have one; so do the rounds here.
    """
    if not racks:
        return tuple(order[:replication_factor])
    rack_count = len(set(racks.values()))
    chosen = [order[0]]
    used = {racks[order[0]]}
    others, place = order[1:], 0
    while len(chosen) < replication_factor:
        broker = others[place % len(others)]
        place += 1
        if broker not in chosen and (racks[broker] not in used or len(used) == rack_count):
            chosen.append(broker)
            used.add(racks[broker])
    return tuple(chosen)


def check_assignment(
    assignment: Mapping[int, Sequence[int]],
    *,
    replication_factor: int | None = None,
    known: Sequence[int] | None = None,
) -> None:
    """Check an assignment that a client gives; `replication_factor` and `known` brokers when partitions are added.

    Raises KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """
    for partition, replicas in sorted(assignment.items()):
        if not replicas:
            raise _invalid(f"Cannot have replication factor of 0 for partition id {partition}.")
        if len(set(replicas)) != len(replicas):
            given = ", ".join(map(str, replicas))
            raise _invalid(
                f"Duplicate brokers not allowed in replica assignment: {given} for partition id {partition}."
            )
        unknown = sorted(set(replicas) - set(known)) if known is not None else []
        if unknown:
            raise _invalid(f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.")
    if replication_factor is None:
        if len({len(replicas) for replicas in assignment.values()}) > 1:
            raise _invalid("All partitions should have the same number of replicas")
        return
    odd = {
        number: len(replicas) for number, replicas in sorted(assignment.items()) if len(replicas) != replication_factor
    }
    if odd:
        raise _invalid(
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} while "
            f"partitions {list(odd)} have replication factors {list(odd.values())}, respectively."
        )


def check_numbering(partitions: Sequence[int]) -> None:
    """Check that the partitions of a new topic are 0, 1, 2, … Raises KafkaError: INVALID_REPLICA_ASSIGNMENT."""
    if sorted(partitions) != list(range(len(partitions))):
        raise _invalid("partitions should be a consecutive 0-based integer sequence")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
