"""Checks of arguments that applications pass, so that a wrong one is refused in the call that gets it.

A wrong type is a TypeError, a value out of range a ConfigError (which is a ValueError). No I/O.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from inspect import CO_COROUTINE
from typing import Any, TypeVar

from odradek.client.errors import ConfigError
from odradek.client.records import ConsumerGroupMetadata, Headers, OffsetAndMetadata, TopicPartition

Kind = TypeVar("Kind")
HIGHEST_INT32, HIGHEST_INT64 = 2**31 - 1, 2**63 - 1
TEXT_BYTES_LIMIT = 32_767
"""Longest text of the protocol (Kafka: a STRING's length is an INT16)."""
TOPIC_CHARACTERS_LIMIT = 249
LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
"""Pattern of a topic's name (org.apache.kafka.common.internals.Topic)."""


def topic_name(given: Any) -> str:
    """Return a topic's name. Raises TypeError, ConfigError for one that no cluster can have."""
    if not isinstance(given, str):
        raise TypeError(f"a topic must be a string, not {type(given).__name__}: {given!r}")
    return legal_name(given, "a topic's name")


def listed(given: Any, what: str) -> list[Any]:
    """Return an iterable as a list. Raises TypeError, also for a single text, which would be taken letter by letter."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{what} must be a list, not {type(given).__name__}: {given!r}")
    return list(given)


def topic_names(given: Any) -> list[str]:
    """Return names of topics. Raises TypeError, ConfigError."""
    return [topic_name(one) for one in listed(given, "topics")]


def texts(given: Any, what: str) -> list[str]:
    """Return texts that can be sent; `what` is the name of one. Raises TypeError, ConfigError."""
    return [text(one, f"a {what}") for one in listed(given, f"{what}s")]


def instances(given: Any, kind: type[Kind]) -> list[Kind]:
    """Return an iterable of instances of a class as a list. Raises TypeError."""
    kept = listed(given, f"{kind.__name__}s")
    for one in kept:
        if not isinstance(one, kind):
            raise TypeError(f"expected {kind.__name__}, not {type(one).__name__}: {one!r}")
    return kept


def regular_expression(given: str | re.Pattern[str]) -> re.Pattern[str]:
    """Return a compiled pattern. Raises re.error, also for one that is too large, where re.compile raises others."""
    try:
        return re.compile(given)
    except (OverflowError, RecursionError) as error:
        raise re.error(str(error)) from error


def mapping(given: Any, what: str) -> Mapping[Any, Any]:
    """Return a mapping as it is. Raises TypeError."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} must be a mapping, not {type(given).__name__}: {given!r}")
    return given


def by_partition(given: Any, what: str) -> dict[TopicPartition, Any]:
    """Return a mapping whose keys are partitions as a dict. Raises TypeError, ConfigError."""
    return {topic_partition(where): one for where, one in mapping(given, what).items()}


def legal_name(given: str, what: str) -> str:
    """Return a name that Kafka's Topic.validate accepts. Raises ConfigError."""
    if not LEGAL_TOPIC.fullmatch(given) or given in (".", "..") or len(given) > TOPIC_CHARACTERS_LIMIT:
        raise ConfigError(
            f"{what} has 1 to {TOPIC_CHARACTERS_LIMIT} letters, digits, dots, dashes and underscores, "
            f"and is not . or ..: not {given[: TOPIC_CHARACTERS_LIMIT + 1]!r}"
        )
    return given


def text(given: Any, what: str) -> str:
    """Return a text that can be sent: UTF-8 can encode it, and it is not too long. Raises TypeError, ConfigError."""
    if not isinstance(given, str):
        raise TypeError(f"{what} must be a string, not {type(given).__name__}")
    try:
        size = len(given.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"{what} has characters that UTF-8 cannot encode: {given!r}") from None
    if size > TEXT_BYTES_LIMIT:
        raise ConfigError(f"{what} cannot be sent: a text has at most {TEXT_BYTES_LIMIT} bytes, not {size}")
    return given


def group_id(given: Any) -> str:
    """Return the id of a group. Raises TypeError, ConfigError."""
    return text(given, "the id of a group")


def setting(name: Any, value: Any) -> None:
    """Check name and value of a setting to send to a cluster; the value may be None. Raises TypeError, ConfigError."""
    text(name, "the name of a setting")
    if value is not None:
        text(value, f"the value of {name}")


def callback(given: Any, what: str) -> Callable[..., Any]:
    """Return a function that is going to be called and not awaited. Raises TypeError for another value, and for a
    coroutine function. It is fast, as it is called for each record."""
    if not callable(given):
        raise TypeError(f"{what} must be a function, not {type(given).__name__}")
    code = getattr(given, "__code__", None)
    if code is not None and code.co_flags & CO_COROUTINE:
        raise TypeError(f"{what} must be a plain function, not a coroutine function: nobody would await it")
    kept: Callable[..., Any] = given
    return kept


def octets(given: Any, what: str) -> bytes:
    """Return bytes. Raises TypeError."""
    if not isinstance(given, (bytes, bytearray, memoryview)):
        raise TypeError(f"{what} must be bytes, not {type(given).__name__}")
    return bytes(given)


def whole_number(given: Any, what: str, highest: int = HIGHEST_INT64, lowest: int = 0) -> int:
    """Return an int from `lowest` to `highest`. Numpy's integers are accepted, floats and booleans are not. Raises
    TypeError, ConfigError."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(f"{what} must be an integer, not {type(given).__name__}: {given!r}")
    number = operator.index(given)
    if not lowest <= number <= highest:
        raise ConfigError(f"{what} must be between {lowest} and {highest}, not {number}")
    return number


def duration(given: Any) -> float:
    """Return a time to wait, in the caller's unit. Infinity is accepted. Raises TypeError; ConfigError for NaN, which
    would stop all later timers of a loop."""
    if isinstance(given, (bool, str)) or not hasattr(given, "__float__"):
        raise TypeError(f"a timeout must be a number, not {type(given).__name__}: {given!r}")
    if given != given:
        raise ConfigError("a timeout must be a number, not nan")
    try:
        return float(given)
    except OverflowError:  # an int with hundreds of digits
        return float("inf" if given > 0 else "-inf")


def topic_partition(given: Any) -> TopicPartition:
    """Return a TopicPartition; any pair of topic and number is accepted, also another client's. Raises TypeError,
    ConfigError."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(f"a partition must be a TopicPartition(topic, number), not {type(given).__name__}: {given!r}")
    topic, partition = given
    return TopicPartition(topic_name(topic), whole_number(partition, "a partition's number", HIGHEST_INT32))


def topic_partitions(given: Iterable[Any]) -> list[TopicPartition]:
    """Return TopicPartitions, each once, in the order given. Raises TypeError, ConfigError."""
    if isinstance(given, TopicPartition):
        raise TypeError(f"partitions must be a list of TopicPartition, not {given!r}")
    return list(dict.fromkeys(topic_partition(one) for one in listed(given, "partitions")))


def offset(given: Any) -> int:
    """Return an offset: 0 or more."""
    return whole_number(given, "an offset")


def timestamp_ms(given: Any) -> int:
    """Return a time in milliseconds since 1970."""
    return whole_number(given, "a timestamp in milliseconds since 1970")


def offsets_to_commit(given: Mapping[Any, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets by partition. Each is the offset of the next record, as a number or an OffsetAndMetadata. Raises
    TypeError, ConfigError."""
    wanted = {}
    for given_for, position in by_partition(given, "offsets").items():
        if not isinstance(position, tuple):
            wanted[given_for] = OffsetAndMetadata(offset(position))
            continue
        if not 1 <= len(position) <= 3:
            raise TypeError(
                f"an offset must be a number or OffsetAndMetadata(offset, metadata, epoch), not {position!r}"
            )
        number, metadata, epoch = (*position, None, None)[:3]
        wanted[given_for] = OffsetAndMetadata(
            offset(number),
            "" if metadata is None else text(metadata, "the metadata of an offset"),
            -1 if epoch is None else whole_number(epoch, "the leader epoch of an offset", HIGHEST_INT32, -1),
        )
    return wanted


def group_metadata(given: Any) -> ConsumerGroupMetadata:
    """Return the ConsumerGroupMetadata of a commit in a transaction. Raises TypeError, ConfigError."""
    if not isinstance(given, ConsumerGroupMetadata):
        raise TypeError(f"group_metadata must be consumer.group_metadata(), not {given!r}")
    named, generation_id, member_id, group_instance_id = given
    return ConsumerGroupMetadata(
        group_id(named),
        whole_number(generation_id, "the generation of a group", HIGHEST_INT32, -1),
        text(member_id, "the id of a member"),
        None if group_instance_id is None else text(group_instance_id, "group.instance.id"),
    )


def headers(given: Any) -> Headers:
    """Return a copy of headers, since the caller may change its list. None, pairs and a mapping are accepted. Raises
    TypeError."""
    if given is None:
        return ()
    pairs = given.items() if isinstance(given, Mapping) else given
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise TypeError(f"headers must be pairs of a string and bytes or None, not {given!r}")
    kept = tuple(pairs)
    for pair in kept:
        if type(pair) is not tuple or len(pair) != 2 or type(pair[0]) is not str:
            break
        if type(pair[1]) is not bytes and pair[1] is not None:
            break
    else:
        return kept  # all immutable
    return tuple(_header(pair) for pair in kept)


def _header(pair: Any) -> tuple[str, bytes | None]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"a header must be a pair of a string and bytes or None, not {pair!r}")
    name, content = pair
    if not isinstance(name, str) or not (content is None or isinstance(content, (bytes, bytearray, memoryview))):
        raise TypeError(f"a header must be a string and bytes or None, not {name!r} and {type(content).__name__}")
    return name, content if content is None or type(content) is bytes else bytes(content)
