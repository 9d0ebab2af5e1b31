"""Settings of what a broker writes about itself. Kafka leaves that to log4j; none of these is a setting of Kafka's."""

from dataclasses import dataclass

from odradek.broker.settings.definition import setting


@dataclass(frozen=True, kw_only=True)
class LoggerSettings:
    """Form and place of the lines. Their levels are settings of the resource BROKER_LOGGER."""

    logger_format: str = setting(
        "string text {text,json} low read-only",
        "text: plain lines; json: one JSON object on each line. Not a setting of Kafka's.",
    )
    logger_dir: str = setting(
        "string '' any low read-only",
        "Folder for server.log, controller.log, state-change.log, kafka-request.log and others; empty: stderr. "
        "Not a setting of Kafka's.",
    )
    logger_max_bytes: int = setting(
        "long 104857600 >=1024 low read-only",
        "Size at which a file of logger.dir is rotated. Not a setting of Kafka's.",
    )
    logger_backups: int = setting(
        "int 10 1..1000 low read-only",
        "Rotated files of each log of logger.dir that are kept. Not a setting of Kafka's.",
    )
