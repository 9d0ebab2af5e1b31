"""The settings of one log: Kafka's topic settings with Kafka 3.9's defaults."""

from odradek.broker.settings.topic_settings import CREATE_TIME, LOG_APPEND_TIME, NO_LIMIT_MS, LogConfig

__all__ = ["CREATE_TIME", "LOG_APPEND_TIME", "NO_LIMIT_MS", "LogConfig"]
