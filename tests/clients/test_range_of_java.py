"""The range assignor decides as Kafka's own, so that nothing moves when the leader of a group is another client."""

import random
import subprocess
from pathlib import Path

from odradek.client.consumer.assignors.assignment import Assignment, ReplicaRacks, Subscriber
from odradek.client.consumer.assignors.range_assignor import RangeAssignor
from tests.clients.conftest import HERE, java_program

CASES = 2_000


def drawn(dice: random.Random) -> tuple[list[Subscriber], ReplicaRacks]:
    """Members and topics; half of the groups want the same topics, and half of the topics are equally large."""
    alike, size = dice.random() < 0.5, dice.randint(1, 9)
    replicas = {
        topic: [
            frozenset(dice.sample("ABC", dice.randint(0, 3)))
            for _ in range(size if dice.random() < 0.5 else dice.randint(1, 9))
        ]
        for topic in "tuv"
    }
    return [
        Subscriber(
            f"m{number}",
            frozenset("tuv" if alike else dice.sample("tuv", dice.randint(1, 3))),
            rack=dice.choice(["A", "B", "C", "D", None]),
        )
        for number in range(dice.randint(1, 5))
    ], replicas


def asked(members: list[Subscriber], replicas: ReplicaRacks) -> str:
    """A group as one line for Ranges.java."""
    of_members = " ".join(f"{one.member_id}:{one.rack or ''}:{','.join(sorted(one.topics))}" for one in members)
    of_topics = " ".join(
        f"{topic}:{','.join(''.join(sorted(racks)) for racks in partitions)}" for topic, partitions in replicas.items()
    )
    return f"{of_members} / {of_topics}"


def told(assignment: Assignment) -> str:
    """An assignment as Ranges.java prints it."""
    named = {name: ",".join(f"{tp.topic}-{tp.partition}" for tp in held) for name, held in assignment.items()}
    return " ".join(f"{name}:{partitions}" for name, partitions in named.items())


def test_ranges_are_those_of_java(java_classpath: str) -> None:
    dice = random.Random(881)
    groups = [drawn(dice) for _ in range(CASES)]
    answer = subprocess.run(
        java_program(Path(HERE) / "java" / "Ranges.java", java_classpath),
        input="".join(asked(*group) + "\n" for group in groups),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for (members, replicas), java in zip(groups, answer.stdout.splitlines(), strict=True):
        counts = {topic: len(partitions) for topic, partitions in replicas.items()}
        ours = told(RangeAssignor().assign_near(members, counts, replicas))
        assert ours == java, asked(members, replicas)
