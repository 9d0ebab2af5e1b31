"""The options of `format("odradek")`: those of Spark's own Kafka source, checked. No I/O.

Names are compared without regard to case, as everywhere in Spark. An option that begins with `kafka.` is a setting of
the client under Kafka's own name; `bootstrap.servers` may be given without the prefix. No option is ignored in silence.
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from odradek.client import arguments
from odradek.client.config import ISOLATION_LEVELS, CommonConfig, addresses, load, setting
from odradek.client.errors import ConfigError
from odradek.client.records import TopicPartition
from odradek.client.spark.offsets import EARLIEST, LATEST, LONG_MAX, Offsets, numbers_by_partition, partitions_by_topic

CLIENT_PREFIX = "kafka."
STRATEGIES = ("subscribe", "subscribePattern", "assign")
ENDINGS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STARTINGS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
NAMES = (
    *STRATEGIES,
    *STARTINGS,
    *ENDINGS,
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "bootstrap.servers",
)
REFUSED = {
    "fetchOffset.numRetries": "offsets are asked for as long as kafka.default.api.timeout.ms allows",
    "fetchOffset.retryIntervalMs": "kafka.retry.backoff.ms is the pause before offsets are asked for again",
    "kafka.auto.offset.reset": "startingOffsets says where to begin",
    "kafka.enable.auto.commit": "the checkpoint says where a query goes on; with kafka.group.id offsets are committed",
    "kafka.auto.commit.interval.ms": "with kafka.group.id offsets are committed when a micro-batch is finished",
    **dict.fromkeys(
        (
            "kafka.session.timeout.ms",
            "kafka.heartbeat.interval.ms",
            "kafka.max.poll.interval.ms",
            "kafka.partition.assignment.strategy",
            "kafka.group.instance.id",
        ),
        "Spark's tasks are not members of a group, so it has no effect",
    ),
    **dict.fromkeys(
        ("kafka.max.poll.records", "kafka.fetch.max.bytes"),
        "each answer of a broker becomes rows at once; kafka.max.partition.fetch.bytes limits its size",
    ),
    "kafka.client.rack": "tasks read from leaders",
    "kafka.interceptor.classes": "a source has no interceptors",
    "kafka.key.deserializer": "key is binary: cast it in the query",
    "kafka.value.deserializer": "value is binary: cast it in the query",
}
"""Options of Spark's Kafka source that this one refuses → why, and what to use instead."""
SHOWN_MAX = 200
"""Most characters of an option that a refusal shows."""
DEFAULT_TRIGGER_DELAY_MS = 15 * 60 * 1000
MILLISECONDS = {
    "us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip
"""Units of a duration, as in Spark, in milliseconds; without a unit it is in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings(CommonConfig):
    """Settings that may follow `kafka.`: names and ranges are those of Kafka's consumer, sizes are for bulk reading."""

    fetch_min_bytes: int = setting(1, at_least=0)
    fetch_max_wait_ms: int = setting(500, at_least=0)
    max_partition_fetch_bytes: int = setting(4 * 1024 * 1024, at_least=1)
    isolation_level: str = setting("read_uncommitted", choices=list(ISOLATION_LEVELS))
    check_crcs: bool = setting(True)
    default_api_timeout_ms: int = setting(60_000, at_least=0)
    group_id: str = setting("")

    @property
    def isolation(self) -> int:
        """Number of the isolation level on the wire."""
        return ISOLATION_LEVELS[self.isolation_level]


class Bound(Enum):
    """Kinds of a start or an end."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    TIMESTAMPS = "timestamps"


@dataclass(frozen=True, slots=True)
class Limit:
    """Place where reading starts or ends: `numbers` are offsets (EARLIEST, LATEST allowed) or milliseconds since 1970.

    None in `numbers` for TIMESTAMPS means `timestamp_ms` for all partitions.
    """

    kind: Bound
    numbers: Offsets | None = None
    timestamp_ms: int = -1
    option: str = ""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options. Exactly one of `topics`, `pattern`, `assigned` is not None."""

    client: Mapping[str, str]
    """Settings of the client, by Kafka's names; `settings` is the checked form."""
    topics: tuple[str, ...] | None
    pattern: str | None
    assigned: tuple[TopicPartition, ...] | None
    start: Limit | None
    """None: the default, which is earliest in a batch and latest in a stream."""
    end: Limit | None
    latest_when_none: bool
    """True to start at the end of a partition without a record at or after the timestamp, instead of failing."""
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    """Longest time in ms that fewer than `min_offsets_per_trigger` records wait for more."""
    min_partitions: int | None
    max_records_per_partition: int | None
    """Largest number of records that one task reads."""
    include_headers: bool
    group_id_prefix: str | None
    poll_timeout_ms: int | None
    """Longest time in ms that a task waits for records that do not come; None: default.api.timeout.ms."""

    @property
    def settings(self) -> ReadSettings:
        """Return the client's settings with defaults."""
        return load(ReadSettings, self.client, {})


def parse(given: Mapping[str, str]) -> SourceOptions:
    """Return the checked options, as far as batches and streams have them in common. Raises ConfigError, one line."""
    named = _canonical(given)
    client = client_settings(named)
    load(ReadSettings, client, {})
    strategies = [name for name in STRATEGIES if name in named]
    if len(strategies) != 1:
        found = " and ".join(strategies) if strategies else "none"
        raise ConfigError(f"give exactly one of {', '.join(STRATEGIES)}; there is {found}")
    options = SourceOptions(
        client,
        _topics(named.get("subscribe")),
        _pattern(named.get("subscribePattern")),
        _assigned(named.get("assign")),
        _limit(named, STARTINGS),
        _limit(named, ENDINGS),
        _latest_when_none(named.get("startingOffsetsByTimestampStrategy", "error")),
        true_or_false(named, "failOnDataLoss", True),
        _positive(named, "maxOffsetsPerTrigger"),
        _positive(named, "minOffsetsPerTrigger"),
        _duration_ms("maxTriggerDelay", named.get("maxTriggerDelay", f"{DEFAULT_TRIGGER_DELAY_MS}ms")),
        _positive(named, "minPartitions"),
        _positive(named, "maxRecordsPerPartition"),
        true_or_false(named, "includeHeaders", False),
        named.get("groupIdPrefix"),
        _positive(named, "kafkaConsumer.pollTimeoutMs"),
    )
    most, least = options.max_offsets_per_trigger, options.min_offsets_per_trigger
    if most is not None and least is not None and least > most:
        raise ConfigError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")
    return options


def for_batch(options: SourceOptions) -> tuple[Limit, Limit]:
    """Return start and end of a batch query. Raises ConfigError for a start at the latest offset or behind the end, and
    for an end at the earliest."""
    start = options.start or Limit(Bound.EARLIEST)
    end = options.end or Limit(Bound.LATEST)
    _refuse(start, Bound.LATEST, LATEST, "a batch query cannot start at the latest offset: there is nothing behind it")
    _refuse(end, Bound.EARLIEST, EARLIEST, "a batch query cannot end at the earliest offset: nothing is before it")
    _refuse_backwards(start, end)
    return start, end


def for_stream(options: SourceOptions) -> Limit:
    """Return the start of a streaming query. Raises ConfigError when an end is given."""
    if options.end is not None:
        raise ConfigError(f"{options.end.option} is for batch queries: a stream has no end, leave it out")
    return options.start or Limit(Bound.LATEST)


def _refuse(limit: Limit, kind: Bound, offset: int, why: str) -> None:
    in_json = limit.kind is Bound.OFFSETS and limit.numbers is not None and offset in limit.numbers.values()
    if limit.kind is kind or in_json:
        raise ConfigError(f"{limit.option}: {why}")


def _refuse_backwards(start: Limit, end: Limit) -> None:
    """Raise ConfigError for a start behind its end, if both are offsets or both are times."""
    if start.kind is not end.kind:
        return
    begins = start.numbers or dict.fromkeys(end.numbers or (), start.timestamp_ms)
    ends = end.numbers or dict.fromkeys(begins, end.timestamp_ms)
    pairs = [(f" of {one}", begins[one], ends[one]) for one in sorted(begins) if one in ends]
    for where, begin, finish in pairs or [("", start.timestamp_ms, end.timestamp_ms)]:
        if 0 <= finish < begin:
            raise ConfigError(f"{start.option}{where} is {begin}, which is behind {end.option}: {finish}")


def client_settings(named: Mapping[str, str]) -> dict[str, str]:
    """Return the client's settings, by Kafka's names. Raises ConfigError without valid bootstrap.servers."""
    plain, prefixed = named.get("bootstrap.servers"), named.get("kafka.bootstrap.servers")
    if plain is not None and prefixed is not None and plain != prefixed:
        raise ConfigError(f"kafka.bootstrap.servers={prefixed} and bootstrap.servers={plain} contradict each other")
    client = {
        name.removeprefix(CLIENT_PREFIX): value
        for name, value in named.items()
        if name.startswith(CLIENT_PREFIX) or name == "bootstrap.servers"
    }
    if "bootstrap.servers" not in client:
        raise ConfigError("kafka.bootstrap.servers is missing: give host:port of some brokers, separated by commas")
    addresses(client["bootstrap.servers"].split(","))
    return client


def _canonical(given: Mapping[str, str]) -> dict[str, str]:
    """Return options by the names of this module. Raises ConfigError for refused and unknown ones."""
    known = {name.lower(): name for name in NAMES}
    refused = {name.lower(): name for name in REFUSED}
    named: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower in refused:
            raise ConfigError(f"option {refused[lower]} is not for this source: {REFUSED[refused[lower]]}")
        if lower not in known and not lower.startswith(CLIENT_PREFIX):
            raise ConfigError(_unknown(name, lower))
        named[known.get(lower, lower)] = value
    return named


def _unknown(name: str, lower: str) -> str:
    near = difflib.get_close_matches(lower, [known.lower() for known in NAMES], n=1, cutoff=0.6)
    proper = next((known for known in NAMES if near and known.lower() == near[0]), None)
    return f"unknown option {name}" + (f": did you mean {proper}?" if proper else "")


def _topics(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ConfigError("subscribe names no topic: give one, or several with commas")
    return names


def _pattern(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        arguments.regular_expression(text)
    except re.error as error:
        raise ConfigError(f"subscribePattern {text!r} is not a regular expression: {error}") from None
    return text


def _assigned(text: str | None) -> tuple[TopicPartition, ...] | None:
    if text is None:
        return None
    found = partitions_by_topic("assign", _json("assign", text))
    if not found:
        raise ConfigError("assign names no partition")
    return tuple(found)


def _json(option: str, text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise ConfigError(f"{option} names {max(names, key=names.count)!r} twice: {text!r}")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{option} is not JSON ({error}): {text[:SHOWN_MAX]!r}") from None


def _limit(named: Mapping[str, str], options: tuple[str, str, str]) -> Limit | None:
    """Return a start or an end. As in Spark's source, the first option given counts: one timestamp for all partitions,
    timestamps by partition, offsets."""
    offsets, timestamp, timestamps = options
    if timestamp in named:
        return Limit(Bound.TIMESTAMPS, None, whole_number(timestamp, named[timestamp], at_least=0), timestamp)
    if timestamps in named:
        numbers = numbers_by_partition(timestamps, _json(timestamps, named[timestamps]), at_least=0)
        return Limit(Bound.TIMESTAMPS, numbers, option=timestamps)
    if offsets not in named:
        return None
    text = named[offsets].strip()
    if text.lower() in (Bound.EARLIEST.value, Bound.LATEST.value):
        return Limit(Bound(text.lower()), option=offsets)
    if not text.startswith("{"):
        raise ConfigError(f'{offsets} must be earliest, latest or JSON such as {{"topic":{{"0":23}}}}, not {text!r}')
    return Limit(Bound.OFFSETS, numbers_by_partition(offsets, _json(offsets, text), at_least=EARLIEST), option=offsets)


def _latest_when_none(text: str) -> bool:
    if text.lower() not in ("error", "latest"):
        raise ConfigError(f"startingOffsetsByTimestampStrategy must be error or latest, not {text!r}")
    return text.lower() == "latest"


def true_or_false(named: Mapping[str, str], option: str, default: bool) -> bool:
    """Return an option that is true or false. Raises ConfigError."""
    text = named.get(option, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{option} must be true or false, not {named[option]!r}")
    return text == "true"


def _positive(named: Mapping[str, str], option: str) -> int | None:
    return whole_number(option, named[option], at_least=1) if option in named else None


def _duration_ms(option: str, text: str) -> int:
    """Read a duration, written as `15m`, `500ms` or `10 s`."""
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if found is None or (found[2] or "ms") not in MILLISECONDS:
        raise ConfigError(f"{option} must be a duration such as 15m, 30s or 500ms, not {text!r}")
    return int(int(found[1]) * MILLISECONDS[found[2] or "ms"])


def whole_number(option: str, text: str, at_least: int, at_most: int = LONG_MAX) -> int:
    """Return an option that is a whole number. Raises ConfigError."""
    try:
        number = int(text)
    except ValueError:
        raise ConfigError(f"{option} must be a whole number, not {text!r}") from None
    if number < at_least:
        raise ConfigError(f"{option} must be at least {at_least}, not {number}")
    if number > at_most:
        raise ConfigError(f"{option} must be at most {at_most}, not {number}")
    return number
