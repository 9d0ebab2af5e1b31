"""A broker for one test, in the shape of testcontainers' own KafkaContainer.

with OdradekContainer() as kafka:
    producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})

Needs the testcontainers package, an engine, and the image: `docker compose build` in the repository makes it.
"""

import io
import tarfile
import time
from typing import Any, Self

from docker.errors import APIError, ImageNotFound
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException
from testcontainers.core.network import Network

IMAGE = "odradek"
ZOOKEEPER_IMAGE = "zookeeper:3.9"
ZOOKEEPER_PORT = 2181
INSIDE_PORT = 19092
START_SECONDS = 120
POLL_SECONDS = 0.1
SETTINGS_FILE = "etc/odradek/server.properties"
PROGRAMS = "/usr/local/lib/odradek"
WAIT_FOR_SETTINGS = f"until [ -s /{SETTINGS_FILE} ]; do sleep 0.05; done; exec python {PROGRAMS}/entrypoint.py"
HEALTH = ["python", f"{PROGRAMS}/health.py"]
NOT_OF_COMPOSE = {"com.docker.compose.project": "", "com.docker.compose.service": ""}
"""Compose labels the images that it builds, and a container has its image's labels: `docker compose down` would take it
for one of its own."""


class OdradekContainer(DockerContainer):
    """A broker, and a ZooKeeper container beside it in one network.

    Other containers of a network that was given with `with_network` reach the broker at its alias, port 19092.
    `with_env("KAFKA_MESSAGE_MAX_BYTES", "2000000")` sets any of Kafka's settings.
    """

    def __init__(
        self, image: str = IMAGE, port: int = 9093, zookeeper_image: str = ZOOKEEPER_IMAGE, **kwargs: Any
    ) -> None:
        super().__init__(image, **{"labels": NOT_OF_COMPOSE, **kwargs})
        self.port = port
        self.zookeeper = DockerContainer(zookeeper_image)
        self._own_network: Network | None = None
        self.with_exposed_ports(port)
        self.with_command(["sh", "-c", WAIT_FOR_SETTINGS])

    def get_bootstrap_server(self) -> str:
        """Return host:port for clients outside of containers."""
        host = self.get_container_host_ip()
        # The engine may publish one port for IPv4 and another for IPv6; this one is that for IPv4.
        return f"{'127.0.0.1' if host == 'localhost' else host}:{self.get_exposed_port(self.port)}"

    def start(self, timeout: float = START_SECONDS) -> Self:
        """Start ZooKeeper and the broker; return when it is registered and answers.

        Raises ContainerStartException, ImageNotFound.
        """
        self._check_image()
        if self._network is None:
            self._own_network = Network().create()
            self.with_network(self._own_network)
        self._start_zookeeper()
        super().start()
        # The port that clients are told is known only now.
        self.get_wrapped_container().put_archive("/", archive(SETTINGS_FILE, self._settings()))
        self._wait_until_healthy(timeout)
        return self

    def _check_image(self) -> None:
        """Check that our image is here. What a registry has under its name is somebody else's. Raises ImageNotFound."""
        if self.image != IMAGE:
            return
        try:
            self.get_docker_client().client.images.get(IMAGE)
        except ImageNotFound as error:
            raise ImageNotFound(f"there is no image {IMAGE!r}: `docker compose build` in the repository") from error

    def _start_zookeeper(self) -> None:
        assert self._network is not None
        self.zookeeper.with_network(self._network).with_exposed_ports(ZOOKEEPER_PORT)
        self.zookeeper.with_envs(ZOO_TICK_TIME="500", ZOO_ADMINSERVER_ENABLED="false", ZK_SERVER_HEAP="128")
        self.zookeeper.start()

    def _settings(self) -> str:
        # In a network of its own a container is found by the first 12 digits of its id.
        inside, zookeeper = self.get_container_id()[:12], self.zookeeper.get_container_id()[:12]
        settings = {
            "broker.id": "1",
            "listeners": f"INSIDE://:{INSIDE_PORT},OUTSIDE://:{self.port}",
            "advertised.listeners": f"INSIDE://{inside}:{INSIDE_PORT},OUTSIDE://{self.get_bootstrap_server()}",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "zookeeper.connect": f"{zookeeper}:{ZOOKEEPER_PORT}",
            "zookeeper.connection.timeout.ms": str(START_SECONDS * 1000),
            "log.dirs": "/var/lib/odradek",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _wait_until_healthy(self, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        container = self.get_wrapped_container()
        while not self._is_healthy():
            container.reload()
            if container.status != "running" or time.monotonic() > deadline:
                said = container.logs().decode("utf-8", "replace")
                raise ContainerStartException(f"the broker is {container.status} and not healthy:\n{said}")
            time.sleep(POLL_SECONDS)

    def _is_healthy(self) -> bool:
        try:
            return bool(self.get_wrapped_container().exec_run(HEALTH).exit_code == 0)
        except APIError:  # nothing can be run in a container that has ended
            return False

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop both containers, and remove the network if it is ours."""
        super().stop(force, delete_volume)
        self.zookeeper.stop(force, delete_volume)
        if self._own_network is not None:
            self._own_network.remove()
            self._own_network = self._network = None


def archive(path: str, text: str) -> bytes:
    """Pack one file, readable for everybody, as the tar that an engine unpacks."""
    content = text.encode()
    member = tarfile.TarInfo(path)
    member.size, member.mode = len(content), 0o644
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()
