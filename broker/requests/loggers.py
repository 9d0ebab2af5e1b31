"""A broker's loggers as a resource of the requests about settings: Python's loggers, with Kafka's names of levels.

Source: Log4jController and RuntimeLoggerManager of Kafka 3.9.
"""

import logging
from typing import Final

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


def levels() -> dict[str, str]:
    """The level that holds for each logger that there is."""
    names = [name for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)]
    return {ROOT: _level(logging.root)} | {name: _level(logging.getLogger(name)) for name in sorted(names)}


def _level(logger: logging.Logger) -> str:
    number = logger.getEffectiveLevel()
    return next((name for name, least in reversed(LEVELS.items()) if number >= least), "TRACE")


def check_broker(own: int, name: str) -> None:
    """Raises KafkaError INVALID_REQUEST unless the resource is this broker."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if name != str(own):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {own} but received {name}")


def check(name: str, level: str | None) -> None:
    """Whether a logger's level may be set so; None takes it away. Raises KafkaError."""
    if name != ROOT and not isinstance(logging.root.manager.loggerDict.get(name), logging.Logger):
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
    """Both must have been checked."""
    logger = logging.root if name == ROOT else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])
