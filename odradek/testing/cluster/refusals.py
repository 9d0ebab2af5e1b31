"""Answers that refuse: made for any API from the request and the class of its response.

A response mirrors its request: topics and partitions stand in both, under the same names. So an answer that refuses is
the request's own names with a code beside them. Source of the shapes: Kafka's message definitions.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from odradek.protocol.fields import Array, Field, Struct

TOPIC_NAMES = ("name", "topic", "topic_name")
PARTITION_NAMES = ("index", "partition", "partition_index", "partition_id")


class Aim(NamedTuple):
    """Topic and partition that a fault is for; None: any."""

    topic: str | None = None
    partition: int | None = None

    def hits(self, topic: str | None, partition: int | None) -> bool:
        """Tell whether it is for this one; a partition that is not said is any."""
        return self.topic in (None, topic) and (self.partition is None or partition in (None, self.partition))


def structs_of(struct: Any, version: int) -> list[Field]:
    """Return the fields of a struct that are lists of structs in this version."""
    return [line for line in struct.FIELDS if version in line.versions and isinstance(element_of(line), type)]


def element_of(line: Field) -> Any:
    """Return the type of what a list holds; None for a field that is no list."""
    return line.wire.element if isinstance(line.wire, Array) else None


def can_refuse(struct: Any, version: int) -> bool:
    """Tell whether there is a place for an error code in it."""
    return any(_is_code(line, version) for line in struct.FIELDS) or any(
        can_refuse(element_of(line), version) for line in structs_of(struct, version)
    )


def _is_code(line: Field, version: int) -> bool:
    return version in line.versions and line.name.endswith("error_code")


def refusal(request: Any, response: Any, version: int, code: int, *, deep: bool = False) -> Any:
    """Make a response in which the code stands where it is found first, from the top; `deep`: beside each partition."""
    values: dict[str, Any] = {}
    nested = [line for line in structs_of(response, version) if can_refuse(element_of(line), version)]
    own = [line.name for line in response.FIELDS if _is_code(line, version)]
    for line in response.FIELDS:
        if version in line.versions and hasattr(request, line.name) and not isinstance(line.wire, Array):
            values[line.name] = getattr(request, line.name)
    if own and not (deep and nested):
        return response(**values, **dict.fromkeys(own, code))
    for line in nested:
        element = element_of(line)
        values[line.name] = [
            refusal(one, element, version, code, deep=deep)
            if isinstance(one, Struct)
            else element(**{_first_name(element, version): one, **dict.fromkeys(_codes(element, version), code)})
            for one in _counterpart(request, line, version)
        ]
    return response(**values)


def _codes(element: Any, version: int) -> list[str]:
    return [line.name for line in element.FIELDS if _is_code(line, version)]


def _first_name(element: Any, version: int) -> str:
    """Return what a plain value of the request is called in the answer."""
    names = [line.name for line in element.FIELDS if version in line.versions and not _is_code(line, version)]
    return str(next((name for name in names if name in (*TOPIC_NAMES, *PARTITION_NAMES)), names[0]))


def _counterpart(request: Any, line: Field, version: int) -> Iterable[Any]:
    """Return the list in the request that one in the answer mirrors: of the same name, or else the most alike."""
    assert isinstance(line.wire, Array)
    wanted = {one.name for one in getattr(line.wire.element, "FIELDS", ())}
    lists = [one for one in type(request).FIELDS if version in one.versions and isinstance(one.wire, Array)]
    if not lists:
        return ()

    def likeness(one: Field) -> tuple[bool, int]:
        assert isinstance(one.wire, Array)
        names = {inner.name for inner in getattr(one.wire.element, "FIELDS", ())}
        return one.name == line.name, len(names & wanted)

    return getattr(request, max(lists, key=likeness).name) or ()


def topics_field(request: type[Struct], version: int) -> Field | None:
    """Return the list of topics in the requests of a class, where they have one."""
    for line in structs_of(request, version):
        names = {one.name for one in element_of(line).FIELDS if version in one.versions}
        if names & {*TOPIC_NAMES, "topic_id"} and "timestamp_type" not in names:
            return line
    return None


def topic_of(entry: Any, names: dict[bytes, str]) -> str | None:
    """Return the topic that an entry of a request is about."""
    for name in TOPIC_NAMES:
        if getattr(entry, name, None):
            return str(getattr(entry, name))
    topic_id = getattr(entry, "topic_id", None)
    return names.get(topic_id) if topic_id is not None else None


def partitions_field(entry: Any, version: int) -> Field | None:
    """Return the list of partitions of an entry for a topic, where it has one."""
    for line in type(entry).FIELDS:
        if version in line.versions and isinstance(line.wire, Array) and "partition" in line.name:
            return line  # type: ignore[no-any-return]
    return None


def index_of(partition: Any) -> int | None:
    """Return the number of a partition, as it stands in a request."""
    if isinstance(partition, int):
        return partition
    return next((getattr(partition, name) for name in PARTITION_NAMES if hasattr(partition, name)), None)


def split(request: Any, version: int, aim: Aim, names: dict[bytes, str]) -> tuple[Any, Any] | None:
    """Split a request into what the aim is for and the rest, either of which may be None; None when nothing is hit."""
    line = topics_field(type(request), version)
    if line is None or not getattr(request, line.name):
        return (request, None) if aim == Aim() else None
    hit, rest = [], []
    for entry in getattr(request, line.name):
        ours, theirs = _split_entry(entry, version, aim, topic_of(entry, names))
        hit += [ours] if ours is not None else []
        rest += [theirs] if theirs is not None else []
    if not hit:
        return None
    return _with(request, line, hit), (_with(request, line, rest) if rest else None)


def _split_entry(entry: Any, version: int, aim: Aim, topic: str | None) -> tuple[Any, Any]:
    line = partitions_field(entry, version)
    if line is None:
        return (entry, None) if aim.hits(topic, None) else (None, entry)
    partitions = getattr(entry, line.name) or []
    hit = [one for one in partitions if aim.hits(topic, index_of(one))]
    rest = [one for one in partitions if not aim.hits(topic, index_of(one))]
    return (_with(entry, line, hit) if hit else None), (_with(entry, line, rest) if rest or not partitions else None)


def _with(struct: Any, line: Field, value: Any) -> Any:
    """Return a copy in which one field has another value."""
    values = {one.name: getattr(struct, one.name) for one in struct.FIELDS}
    return type(struct)(**{**values, line.name: value})


def merge(into: Any, further: Any, version: int) -> None:
    """Put the entries of a second answer to the same API into the first, topics by their names."""
    for line in structs_of(type(into), version):
        if not can_refuse(element_of(line), version):
            continue
        entries = getattr(into, line.name)
        for entry in getattr(further, line.name):
            same = [one for one in entries if _identity(one) == _identity(entry)]
            if same and structs_of(type(entry), version):
                merge(same[0], entry, version)
            else:
                entries.append(entry)


def _identity(entry: Any) -> list[object]:
    return [getattr(entry, name, None) for name in (*TOPIC_NAMES, "topic_id", *PARTITION_NAMES)]
