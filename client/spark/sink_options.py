"""Options of `df.write.format("odradek")` and `writeStream`: those of Spark's own Kafka sink, and exactly once. No I/O.

As with the source, names are compared without regard to case, a setting of the client begins with `kafka.`, and no
option is ignored in silence.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.client.config import load
from odradek.client.errors import ConfigError
from odradek.client.producer.config import ProducerConfig, check
from odradek.client.spark.offsets import LONG_MAX
from odradek.client.spark.options import CLIENT_PREFIX, client_settings, true_or_false, whole_number

NAMES = ("topic", "transactionalId", "epoch", "failOnDataLoss", "bootstrap.servers")
SPARKS_OWN = ("checkpointlocation", "path", "queryname")
"""Options for Spark itself, which are given in the same way."""
REFUSED = {
    "transactional.id": "give the option transactionalId: tasks have ids of their own, made from it",
    "key.serializer": "keys are written as they are, text or bytes",
    "value.serializer": "values are written as they are, text or bytes",
    "interceptor.classes": "a sink has no interceptors",
    "partitioner": "give a column partition",
    "partitioner.class": "give a column partition",
}
"""Settings of producers that a sink refuses → why, and what to use instead."""
DEFAULTS = {"batch.size": "131072", "linger.ms": "50"}
"""Settings for writing in bulk: batches are sent when they are full, or at the end of a task. With acks=0 batch.size is
the client's own default: no answer says that a batch is too large for its topic, and all of it would be lost."""
TRANSACTION_DEFAULTS = {"transaction.timeout.ms": "900000"}
"""Transactions last as long as brokers allow (transaction.max.timeout.ms): the driver decides when all tasks have
written."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options, checked."""

    client: Mapping[str, str]
    """Settings of the producer, by Kafka's names."""
    topic: str | None
    """Topic of every row; None: the one that the row's column names."""
    transactional_id: str | None
    """Start of the names of transactional ids and groups for writing exactly once; None: at least once."""
    epoch: int | None
    """Number of this write of a batch job, when the write may be repeated."""
    fail_on_data_loss: bool
    """Whether an epoch that can be neither completed nor repeated is an error."""

    def config(self, **more: Any) -> ProducerConfig:
        """Return the producer's settings with defaults."""
        return load(ProducerConfig, self.client, more)


def parse_sink(given: Mapping[str, str]) -> SinkOptions:
    """Return the checked options, as far as these do not depend on the rows. Raises ConfigError, in one line."""
    named = _canonical(given)
    transactional_id = named.get("transactionalId")
    if transactional_id is not None and not transactional_id.strip():
        raise ConfigError("transactionalId is empty")
    if "epoch" in named and transactional_id is None:
        raise ConfigError("epoch numbers the writes of a transactionalId: give that as well")
    client = client_settings(named)
    for name, why in REFUSED.items():
        if name in client:
            raise ConfigError(f"{CLIENT_PREFIX}{name} is not for a sink: {why}")
    defaults = DEFAULTS | (TRANSACTION_DEFAULTS if transactional_id is not None else {})
    if client.get("acks") == "0":
        defaults = {name: value for name, value in defaults.items() if name != "batch.size"}
    options = SinkOptions(
        {**defaults, **client},
        named.get("topic"),
        transactional_id,
        whole_number("epoch", named["epoch"], at_least=0, at_most=LONG_MAX - 1) if "epoch" in named else None,
        true_or_false(named, "failOnDataLoss", True),
    )
    check(options.config(transactional_id=transactional_id))
    return options


def _canonical(given: Mapping[str, str]) -> dict[str, str]:
    known = {name.lower(): name for name in NAMES}
    named: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower in SPARKS_OWN:
            continue
        if lower not in known and not lower.startswith(CLIENT_PREFIX):
            near = difflib.get_close_matches(lower, list(known), n=1, cutoff=0.6)
            raise ConfigError(f"unknown option {name}" + (f": did you mean {known[near[0]]}?" if near else ""))
        named[known.get(lower, lower)] = value
    return named
