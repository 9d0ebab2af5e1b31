"""The same stories to Apache Kafka 3.9.1 and to Odradek: requests that build on the answers before, and what differs.

    python bench/stories_beside_kafka.py
    python bench/stories_beside_kafka.py --subject groups --story "static" --plays 3
    python bench/stories_beside_kafka.py --subject transactions --chance 20 --seed 7

A story (odradek/testing/beside) is a list of requests by several actors, each with a connection of its own. It is
played once with the newest version of every request, then with older ones, until all have had their turn. `--chance
N` plays N stories whose steps are drawn, in versions that are drawn. Ids that a broker draws stand in the comparison
by their places in the story; times, sizes and addresses are not compared, texts for people by whether there is one. A
difference that is wanted has its reason in odradek/testing/beside/comparison.py; any other is printed, and the exit
code is 1.
`bench/beside_kafka.py` compares single requests, drawn over all APIs.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

import this_tree  # noqa: F401

from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.beside.drawn_stories import DRAWN
from odradek.testing.beside.playing import EVERY_PLAY, SETTINGS, SUBJECTS, play_all, prepare
from odradek.testing.foreign.kafka_jars import kafka_jars
from odradek.testing.foreign.raw import RawConnection
from odradek.testing.foreign.stage import Stage

JARS = Path(__file__).resolve().parent.parent / ".cache" / "kafka-3.9"


def report(stages: list[Stage], given: argparse.Namespace) -> bool:
    """Play and print; returns whether nothing differed but what should."""
    addresses = [stage.address for stage in stages]
    wanted: Counter[str] = Counter()
    good = True
    for subject in given.subject or SUBJECTS:
        stories = [one for one in SUBJECTS[subject] if given.story in one.name]
        if given.chance:
            draw = DRAWN.get(subject)
            stories = [] if draw is None else [draw(given.seed + number) for number in range(given.chance)]
        played = play_all(addresses, stories, given.plays, f"{subject}-")
        fine, bad = played.wanted.total(), len(played.unwanted)
        print(f"{subject}: {len(stories)} stories, {played.answers} answers in {played.seconds:.0f} s, ", end="")
        print(f"{fine} fields differ as they should, {bad} as they should not")
        for difference in played.unwanted:
            print(f"    {difference}", flush=True)
        wanted += played.wanted
        good = good and not played.unwanted
    for reason, times in wanted.most_common():
        print(f"{times:6d}  {reason}")
    return good


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--subject",
        choices=SUBJECTS,
        action="append",
        help="play the stories about this subject alone; may be repeated",
    )
    parser.add_argument("--story", default="", help="play the stories with this in their names")
    parser.add_argument("--plays", type=int, default=EVERY_PLAY, help="most plays of each story")
    parser.add_argument("--chance", type=int, default=0, help="play so many drawn stories instead")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        zookeeper = EmbeddedZooKeeper(Path(directory) / "zookeeper", free_ports(1)[0])
        await zookeeper.start()
        places = (("kafka", Path(directory) / "kafka"), ("ours", Path(directory) / "ours"))
        stages = [Stage(kafka_jars(JARS), f"{zookeeper.connect}/{name}", place, 0, SETTINGS) for name, place in places]
        try:
            stages[0].kafka()
            stages[1].odradek()
            for stage in stages:
                with RawConnection(stage.address) as connection:
                    prepare(connection.ask)
            good = report(stages, given)
        finally:
            for stage in stages:
                stage.close()
            await zookeeper.stop()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
