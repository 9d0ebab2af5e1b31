"""Shapes of a journal's entries, as far as the diagnosis reads them. Other versions may write other shapes."""

from collections.abc import Mapping
from typing import Any, Final

JOURNAL: Final = {"began_ms": (int, ...), "forgotten": int, "entries": [object]}
BASE: Final = {"number": int, "at_ms": int, "kind": str, "subject": str, "event_number": (int, ...)}
STATE: Final = {"leader": int, "leader_epoch": int, "isr": [int]}
LAGGING: Final = {"broker": int, "records_behind": (int, None), "silent_ms": (int, None)}
SHAPES: Final[Mapping[str, Mapping[str, Any]]] = {
    "broker came": {"epoch": int},
    "broker bounced": {"epoch": int},
    "broker shutting down": {"led": int, "still_led": int},
    "controller elected": {"epoch": int},
    "controller resigned": {"reason": str},
    "directory failed": {"reason": str, "partitions": [str]},
    "fetcher unreachable": {"reason": str},
    "group rebalancing": {"reason": str},
    "group member left": {"reason": (str, None, ...)},
    "group member expired": {"session_timeout_ms": int, "reason": (str, None, ...)},
    "group member did not rejoin": {"rebalance_timeout_ms": int, "reason": (str, None, ...)},
    "isr": {"lagging": [LAGGING], "limit_ms": int},
    "partition": {"before": (STATE, None, ...), "after": STATE},
    "requests": {"sent": {...: [int]}},
    "session expired": {"led": int},
    "session registered": {"epoch": int},
    "truncation": {"log_end_offset": int, "to": int, "below_high_watermark": int},
    "write": {"zxid": (int, None), "znodes": int, "paths": [str]},
}
"""Fields of an entry that are read, by its kind and change."""
ABOUT_PARTITIONS: Final = ("failure", "isr", "partition", "truncation")
ABOUT_BROKERS: Final = ("broker", "controller")


def is_readable(entry: Any) -> bool:
    """Tell whether an entry has the shape of its kind; of a kind that is not known, the shape that all have."""
    if not has_shape(entry, BASE):
        return False
    kind, subject = entry["kind"], entry["subject"]
    number = subject.rpartition("-")[2] if kind in ABOUT_PARTITIONS else subject if kind in ABOUT_BROKERS else "0"
    shape = SHAPES.get(f"{kind} {entry['change']}" if "change" in entry else kind, {})
    return number.isdecimal() and has_shape(entry, shape)


def has_shape(value: Any, shape: Any) -> bool:
    """Tell whether a value has a shape. A shape is one of these:

    - a type, or None;
    - a list of one shape, which all elements have;
    - a mapping of names to the shapes of their values; the name `...` stands for all names;
    - a tuple of shapes, of which the value has one; `...` among them: the value may be missing.
    """
    if isinstance(shape, tuple):
        return any(has_shape(value, one) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(one, shape[0]) for one in value)
    if isinstance(shape, Mapping):
        return isinstance(value, Mapping) and all(
            all(has_shape(one, wanted) for one in value.values())
            if name is ...
            else has_shape(value.get(name, ...), wanted)
            for name, wanted in shape.items()
        )
    return value is shape if shape is None or shape is ... else isinstance(value, shape)
