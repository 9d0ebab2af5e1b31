"""The cluster of docker-compose.yml in a project and on ports of its own, whose containers tests can harm.

with ComposeCluster(repository) as cluster:
    cluster.kill("broker-1")
    cluster.start("broker-1")

Needs the docker and testcontainers packages, which are development dependencies, and an engine.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import docker
from docker.models.containers import Container
from testcontainers.compose import DockerCompose

from odradek.local.ports import free_port_range
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.zookeeper_process import zookeeper_mode

BROKERS = ("broker-0", "broker-1", "broker-2")
ZOOKEEPERS = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
STOP_SECONDS = int(PATIENCE_SECONDS)
LAST_LINES = 60
HOST = "127.0.0.1"


class ComposeCluster:
    """Entering builds the image and waits until all containers are healthy; leaving removes them and their volumes."""

    def __init__(self, repository: Path) -> None:
        first = free_port_range(2 * len(BROKERS) + len(ZOOKEEPERS))
        self.project = f"odradek-test-{first}"
        self._broker_ports = {name: first + at for at, name in enumerate(BROKERS)}
        self._zookeeper_ports = {name: first + len(BROKERS) + at for at, name in enumerate(ZOOKEEPERS)}
        self.metrics_ports = {name: first + len(BROKERS) + len(ZOOKEEPERS) + at for at, name in enumerate(BROKERS)}
        self._settings = tempfile.NamedTemporaryFile("w", prefix="odradek-compose-", suffix=".env")  # noqa: SIM115
        self._settings.write(self._variables())
        self._settings.flush()
        self._compose = DockerCompose(repository, env_file=self._settings.name)
        self._docker = docker.from_env()

    def _variables(self) -> str:
        lines = [f"COMPOSE_PROJECT_NAME={self.project}"]
        lines += [f"ODRADEK_PORT_{name[-1]}={port}" for name, port in self._broker_ports.items()]
        lines += [f"ODRADEK_METRICS_PORT_{name[-1]}={port}" for name, port in self.metrics_ports.items()]
        lines += [f"ZOOKEEPER_PORT_{name[-1]}={port}" for name, port in self._zookeeper_ports.items()]
        return "\n".join(lines) + "\n"

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._broker_ports.values())

    def __enter__(self) -> "ComposeCluster":
        try:
            self._compose.start()
        except BaseException as error:
            try:
                error.add_note("\n".join(map(self.last_words, (*ZOOKEEPERS, *BROKERS))))
            finally:
                self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._compose.stop()
        self._docker.close()
        self._settings.close()

    def container(self, service: str) -> Container:
        """Return the container of a service as it is now."""
        [one] = self._containers(service)
        return one

    def _containers(self, service: str) -> list[Container]:
        """Return the container of a service, if there is one.

        Whoever builds with compose labels the image, too, and with it every container of that image: only those that
        compose has made have a number.
        """
        own = {"project": self.project, "service": service, "container-number": "1"}
        labels = [f"com.docker.compose.{name}={value}" for name, value in own.items()]
        found: list[Container] = self._docker.containers.list(all=True, filters={"label": labels})
        return found

    def kill(self, service: str) -> None:
        """Kill a service with SIGKILL: the container ends, and stays as it is."""
        self.container(service).kill()

    def stop(self, service: str) -> int:
        """Stop a service with SIGTERM; return the exit code."""
        one = self.container(service)
        one.stop(timeout=STOP_SECONDS)
        return int(one.wait()["StatusCode"])

    def start(self, service: str) -> None:
        """Start a service again, with the data it has."""
        self.container(service).start()

    @contextmanager
    def frozen(self, service: str) -> Iterator[None]:
        """Suspend a service's process for the time of the block; others notice only that nothing comes.

        By a signal: the engine's `pause` goes through the freezer of control groups, which a busy machine may refuse.
        """
        self.container(service).kill(signal="SIGSTOP")
        try:
            yield
        finally:
            self.container(service).kill(signal="SIGCONT")

    def disconnect(self, service: str) -> None:
        """Take a service off the network: it lives, and reaches nobody."""
        self._network().disconnect(self.container(service))

    def connect(self, service: str) -> None:
        """Put a service back on the network after `disconnect`."""
        self._network().connect(self.container(service), aliases=[service])

    def _network(self) -> docker.models.networks.Network:
        [network] = self._docker.networks.list(names=[f"{self.project}_default"])
        return network

    def zookeeper_modes(self) -> dict[str, str]:
        """Return the mode, leader or follower, of the ZooKeeper nodes that are in the quorum."""
        modes = {name: zookeeper_mode(port) for name, port in self._zookeeper_ports.items()}
        return {name: mode for name, mode in modes.items() if mode is not None}

    def last_words(self, service: str) -> str:
        """Return the state of a service's container, what its health checks said, and the last lines of its log."""
        found = self._containers(service)
        if not found:
            return f"{service} was not made"
        [one] = found
        said = "\n".join(check["Output"] for check in one.attrs["State"].get("Health", {}).get("Log") or ())
        return f"{service} is {one.status}, {one.health}:\n{said}\n{one.logs(tail=LAST_LINES).decode()}"
