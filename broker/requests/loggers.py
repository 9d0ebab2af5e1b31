"""A broker's loggers as a resource of the requests about settings: Python's loggers, with Kafka's names of levels.

Kafka's own loggers are known by their names, each standing for the one of ours that tells the same.

Source: Log4jController and RuntimeLoggerManager of Kafka 3.9.
"""

import logging
from typing import Final, Protocol
from weakref import WeakSet

from odradek.protocol.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final[dict[str, int]] = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


KAFKAS: Final[dict[str, str]] = {
    "kafka": "odradek.broker",
    "kafka.cluster.Partition": "odradek.broker.replication.partition",
    "kafka.controller": "odradek.controller",
    "kafka.controller.ControllerChannelManager": "odradek.controller.channel_manager",
    "kafka.controller.KafkaController": "odradek.controller.controller",
    "kafka.coordinator.group": "odradek.broker.groups",
    "kafka.coordinator.group.GroupCoordinator": "odradek.broker.groups.group_coordinator",
    "kafka.coordinator.transaction": "odradek.broker.transactions",
    "kafka.coordinator.transaction.TransactionCoordinator": "odradek.broker.transactions.transaction_coordinator",
    "kafka.log": "odradek.broker.log",
    "kafka.log.LogCleaner": "odradek.broker.log.compaction",
    "kafka.log.LogManager": "odradek.broker.log.log_manager",
    "kafka.log.UnifiedLog": "odradek.broker.log.log",
    "kafka.network": "odradek.broker.network",
    "kafka.network.RequestChannel$": "odradek.broker.network",
    "kafka.server": "odradek.broker.server",
    "kafka.server.DynamicBrokerConfig": "odradek.broker.dynamic_config",
    "kafka.server.KafkaApis": "odradek.broker.requests",
    "kafka.server.KafkaServer": "odradek.broker.server",
    "kafka.server.ReplicaFetcherThread": "odradek.broker.replication",
    "kafka.server.ReplicaManager": "odradek.broker.replication.replica_manager",
    "kafka.zookeeper.ZooKeeperClient": "odradek.zookeeper",
    "org.apache.kafka": "odradek",
    "org.apache.zookeeper": "odradek.zookeeper",
}
"""Kafka's loggers by which its log4j.properties and its users set levels, and which of ours each stands for.

`state.change.logger`, `kafka.request.logger` and `kafka.authorizer.logger` have the same names here.
"""


class Listener(Protocol):
    """Holder of state that depends on the level of a logger."""

    def levels_changed(self) -> None:
        """Bring that state up to date; called after each change of a level."""


listeners: Final["WeakSet[Listener]"] = WeakSet()
"""Listeners to each change of a level. Weak: a broker that is killed inside a process says good-bye to nobody."""


def levels() -> dict[str, str]:
    """Return the level that holds for each logger that there is, ours and those of Kafka's that stand for one."""
    ours = {name for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)}
    return {ROOT: _level(logging.root)} | {name: _level(_logger(name)) for name in sorted(ours | KAFKAS.keys())}


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(KAFKAS.get(name, name))


def _level(logger: logging.Logger) -> str:
    number = logger.getEffectiveLevel()
    return next((name for name, least in reversed(LEVELS.items()) if number >= least), "TRACE")


def check_broker(own: int, name: str) -> None:
    """Check that the resource is this broker. Raises KafkaError INVALID_REQUEST."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if name != str(own):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {own} but received {name}")


def check(name: str, level: str | None) -> None:
    """Check that a logger's level may be set so; None takes it away. Raises KafkaError."""
    if (
        name != ROOT
        and name not in KAFKAS
        and not isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)
    ):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is None:
        if name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    elif level not in LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger; None takes it away. Both must have been checked before."""
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])
    for listener in tuple(listeners):
        listener.levels_changed()
