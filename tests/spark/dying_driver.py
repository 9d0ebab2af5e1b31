"""A streaming query whose driver is killed, with all that belongs to it, when it is about to commit an epoch.

python dying_driver.py BOOTSTRAP FROM TO CHECKPOINT EPOCH
"""

import os
import signal
import sys

from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from odradek.client.spark.data_source import OdradekSource
from odradek.client.spark.sink_options import parse_sink
from odradek.client.spark.writing import StreamWriter

GROUP, EPOCH = "DYING_GROUP", "DYING_EPOCH"


class DyingWriter(StreamWriter):
    """Runs in a worker, which is not of the driver's group of processes: the number of that is in its environment."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if batchId == int(os.environ[EPOCH]):
            os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit(messages, batchId)


class DyingSource(OdradekSource):
    """As OdradekSource."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> DyingWriter:  # noqa: N802
        return DyingWriter(parse_sink(self.options))


def main(bootstrap: str, source: str, sink: str, checkpoint: str, epoch: str) -> None:
    os.environ |= {GROUP: str(os.getpgid(0)), EPOCH: epoch, "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "OFF",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(DyingSource)
    frame = spark.readStream.format("odradek").option("kafka.bootstrap.servers", bootstrap)
    frame = frame.option("subscribe", source).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "40")
    rows = frame.load().selectExpr("value", "value as key")
    writer = rows.writeStream.format("odradek").option("kafka.bootstrap.servers", bootstrap).option("topic", sink)
    writer = writer.option("transactionalId", "dying").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
