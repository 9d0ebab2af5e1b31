"""Declaration of messages: a class with one line per field, from which its constructor and codecs are made.

    class FetchTopic(Struct):
        topic: str = field(STRING, "0-12")
        topic_id: bytes = field(UUID, "13+")
        partitions: list[FetchPartition] = field(Array(FetchPartition), "0+")

The classes behave like slotted dataclasses with keyword-only constructors in which every field has a default. The
fields are encoded in the order of the lines. A field that a version does not have is not encoded in it, and gets its
default when it is decoded.

A `Message` stands on its own: a request, a response, or a record of one of Kafka's own topics; a `Struct` is part of
one. A tagged field whose type is a struct is None when it is absent; every other default is that of Kafka's message
definitions, or else zero, False, empty.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, dataclass_transform

from odradek.protocol.primitives import ZERO_UUID, Part

LATEST_VERSION = 32767
NEVER = 32767
"""FLEXIBLE_FROM of a message that has no flexible version."""


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions from `lowest` to `highest`, both included; empty when lowest > highest."""

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest


NO_VERSIONS = VersionRange(0, -1)


def version_range(text: str) -> VersionRange:
    """Return the range that a text in Kafka's notation names: "none", "3", "3+", "0-14"."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), LATEST_VERSION)
    lowest, _, highest = text.partition("-")
    return VersionRange(int(lowest), int(highest or lowest))


@dataclass(frozen=True, slots=True)
class Fixed:
    """Type of values of fixed width: their code in module struct, their width in bytes, their default."""

    code: str
    width: int
    default: Any


@dataclass(frozen=True, slots=True)
class Sized:
    """Type of values preceded by their length. `length_code`: the struct code of a length that is not compact."""

    name: str
    length_code: str
    default: Any


@dataclass(frozen=True, slots=True)
class Array:
    """Type of arrays: elements of one type, preceded by their count."""

    element: "Fixed | Sized | type[Struct]"
    shared: bool = False
    """True if the value may be a SharedArray, whose encoding is made once for many messages."""


WireType: TypeAlias = "Fixed | Sized | Array | type[Struct]"

BOOL = Fixed("?", 1, False)
INT8 = Fixed("b", 1, 0)
INT16 = Fixed("h", 2, 0)
INT32 = Fixed("i", 4, 0)
INT64 = Fixed("q", 8, 0)
FLOAT64 = Fixed("d", 8, 0.0)
UUID = Fixed("16s", 16, ZERO_UUID)
STRING = Sized("string", "h", "")
BYTES = Sized("bytes", "i", b"")
RECORDS = Sized("records", "i", b"")


class Absent:
    """Type of ABSENT, which stands for an argument that was not given."""


ABSENT = Absent()


@dataclass(slots=True)
class Field:
    """A field of a struct. `name` is set when its class is made; `default` is ABSENT if each value needs a new one."""

    wire: WireType
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    default: Any
    name: str = ""

    def is_tagged(self) -> bool:
        return self.tag is not None


def field(
    wire: WireType, versions: str, *, nullable: str = "none", tag: int | None = None, default: Any = ABSENT
) -> Any:
    """Declare one field of a Struct.

    `versions`, `nullable`: the versions that have it, and those in which it may be None, in Kafka's notation.
    `tag`: its tag, if it is a tagged field, which it is in all its versions. `default`: one other than the type's.
    """
    if default is ABSENT:
        if isinstance(wire, Fixed | Sized):
            default = wire.default
        elif tag is not None and not isinstance(wire, Array):
            default = None
    return Field(wire, version_range(versions), version_range(nullable), tag, default)


def own_default(declared: Field) -> str:
    """Return the expression for the default of a field whose default is ABSENT: a new list or a new struct."""
    assert declared.default is ABSENT, declared
    return "[]" if isinstance(declared.wire, Array) else f"{declared.name}_type()"


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Metaclass of structs: replaces the Field lines of a class by slots and a constructor."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "StructType":
        declared = tuple(value for value in namespace.values() if isinstance(value, Field))
        for attribute, value in namespace.items():
            if isinstance(value, Field):
                value.name = attribute
        for line in declared:
            del namespace[line.name]
        namespace["__slots__"] = tuple(line.name for line in declared)
        namespace["FIELDS"] = declared
        struct = super().__new__(cls, name, bases, namespace)
        if declared:
            compile_constructor_when_used(struct, declared)
        return struct


def compile_constructor_when_used(struct: Any, declared: tuple[Field, ...]) -> None:
    """Postpone compiling a struct's constructor until the struct is first used.

    A broker that starts uses ten structs of two hundred; compiling all constructors would be a tenth of its start.
    """

    def first_use(self: Any, **values: Any) -> None:
        struct.__init__ = compiled = constructor(declared)
        compiled(self, **values)

    struct.__init__ = first_use


def constructor(declared: tuple[Field, ...]) -> Any:
    """Return a keyword-only `__init__` for these fields: code without loops, because many responses are made."""
    known: dict[str, Any] = {"ABSENT": ABSENT}
    parameters = []
    lines = []
    for line in declared:
        name = line.name
        if line.default is not ABSENT:
            known[f"{name}_default"] = line.default
            parameters.append(f"{name}={name}_default")
            lines.append(f"    self.{name} = {name}")
            continue
        known[f"{name}_type"] = line.wire
        parameters.append(f"{name}=ABSENT")
        lines.append(f"    self.{name} = {own_default(line)} if {name} is ABSENT else {name}")
    source = "\n".join([f"def __init__(self, *, {', '.join(parameters)}):", *lines])
    # compiled first: executing a text makes Python forget a Ctrl-C that came meanwhile, and a client that is dropped at
    # the program's end makes such structs
    exec(compile(source, "<constructor>", "exec"), known)
    return known["__init__"]


class Struct(metaclass=StructType):
    """A part of a message. Two are equal if they have the same class and all their fields are equal."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, line.name) == getattr(other, line.name) for line in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{line.name}={getattr(self, line.name)!r}" for line in self.FIELDS)
        return f"{self.__class__.__name__}({values})"


class Message(Struct):
    """A request, a response, or a record of one of Kafka's own topics, which has no API_KEY."""

    API_KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE_FROM: ClassVar[int] = NEVER


T = TypeVar("T", bound=Struct)


class SharedArray(list[T]):
    """Elements, which must not change, with their encoding in one version. `codec.share` makes it."""

    __slots__ = ("encoding", "version")

    def __init__(self, elements: list[T], version: int, encoding: list[Part]) -> None:
        super().__init__(elements)
        self.version: Final = version
        self.encoding: Final = encoding
