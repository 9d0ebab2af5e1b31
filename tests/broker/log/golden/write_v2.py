"""Writes `v2-0`, `transactions-0` and `checkpoints` beside it, with Kafka 3.9.1, from the repository's top.

The times of the records are those of the day; nothing else changes from run to run but ids.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from odradek.local.ports import free_ports
from odradek.local.zookeeper import EmbeddedZooKeeper
from odradek.testing.foreign.corpus import CODECS, SequencedProducer, create_topics, make_records, produce
from odradek.testing.foreign.kafka_jars import kafka_jars
from odradek.testing.foreign.kafkas_corpus import TRANSACTIONS, KafkasCorpus
from odradek.testing.foreign.stage import Stage

HERE = Path(__file__).parent
SETTINGS = {"segment.bytes": "3000", "index.interval.bytes": "200"}
CHECKPOINTS = ("meta.properties", "*-offset-checkpoint")


def write(stage: Stage) -> None:
    kafka = stage.kafka()
    create_topics(stage.address, {"v2": SETTINGS, TRANSACTIONS: SETTINGS})
    for number, codec in enumerate(CODECS):
        produce(stage.address, "v2", codec, make_records("v2", 14 * number, 14))
    producer = SequencedProducer.begin(stage.address, "v2")
    for count in (1, 3, 5):
        producer.send(stage.address, count)
    transactions = KafkasCorpus(stage.address)
    transactions.write_transactions()
    transactions.leave_open()
    kafka.stop()
    for topic in ("v2", TRANSACTIONS):
        shutil.rmtree(HERE / f"{topic}-0", ignore_errors=True)
        (HERE / f"{topic}-0").mkdir()
        for path in stage.directory(topic).iterdir():
            if path.name != "partition.metadata":
                shutil.copy(path, HERE / f"{topic}-0")
    (HERE / "checkpoints").mkdir(exist_ok=True)
    for path in (path for pattern in CHECKPOINTS for path in stage.logs.glob(pattern)):
        shutil.copy(path, HERE / "checkpoints")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, asyncio.Runner() as runner:
        zookeeper = EmbeddedZooKeeper(Path(name), free_ports(1)[0])
        runner.run(zookeeper.start())
        stage = Stage(
            kafka_jars(HERE.parents[3] / ".cache" / "kafka-3.9"),
            zookeeper.connect + "/golden",
            Path(name) / "broker",
            0,
            {},
        )
        try:
            write(stage)
        finally:
            stage.close()
            runner.run(zookeeper.stop())


if __name__ == "__main__":
    main()
