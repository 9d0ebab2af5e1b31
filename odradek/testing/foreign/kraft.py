"""Apache Kafka 4, which knows no ZooKeeper: one process that is broker and controller."""

from pathlib import Path

from odradek.local.ports import free_ports
from odradek.testing.foreign.kafka_jars import KafkaBroker, KafkaJars

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
PROPERTIES = """\
process.roles=broker,controller
node.id=0
controller.quorum.voters=0@{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{address},CONTROLLER://{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
log.cleaner.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
group.initial.rebalance.delay.ms=0
num.network.threads=1
num.io.threads=2
background.threads=2
"""


def new_broker(jars: KafkaJars, directory: Path) -> KafkaBroker:
    """Make a cluster of one broker in an empty directory: formatted, and not started."""
    address, controller = (f"127.0.0.1:{port}" for port in free_ports(2))
    file = directory / "server.properties"
    file.write_text(PROPERTIES.format(address=address, controller=controller, data=directory / "data"))
    jars.run("kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(file))
    return KafkaBroker(jars, file, address, directory / "kafka.log", once=True)
