"""Writes the source of a decoder: a function without calls for one class and one version.

The functions rely on the following, so that valid messages need few checks:
- a read at a position past the end raises IndexError or struct.error, which become MalformedMessage at the end;
- a slice past the end is short instead, so a length needs no check of its own: the position behind it is past the end,
  and the next read or the check before `return` finds that;
- positions never go back, because lengths below zero are refused, or read as null, before they are added;
- counts are checked before anything is made for them: the elements must fit into the bytes that are left.

Text that is not UTF-8 gets replacement characters, as in Kafka (Java's String): there are programs whose groups or
client ids are in Latin-1. A text is always short enough for an int16 length, with which it may be sent on.

A run of fixed-width fields is read by one unpack, together with the length (or its first byte) that follows it.
"""

from struct import Struct as Layout
from typing import Any

from odradek.protocol import primitives
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import ABSENT, RECORDS, STRING, Array, Field, Fixed, Message, Sized, Struct, WireType


def refuse_null(at: int) -> None:
    raise MalformedMessage(f"null where a value is needed, before byte {at}")


def refuse_count(count: int, at: int, size: int) -> None:
    raise MalformedMessage(f"{count} elements announced at byte {at} of {size}")


def refuse_elements(most: int) -> None:
    raise MalformedMessage(f"more than {most} elements in the arrays of one message")


def refuse_tag(tag: int, at: int, end: int) -> None:
    raise MalformedMessage(f"tagged field {tag} ends at byte {at}, announced was {end}")


class DecoderSource:
    """Collects the lines of one decoder and the names that they use (`known`)."""

    def __init__(
        self,
        message: type[Struct],
        version: int,
        flexible: bool,
        *,
        stepwise: bool,
        elements_max: int | None,
    ) -> None:
        """`stepwise`: make it a generator that yields after each struct of an array, and returns the result.
        `elements_max`: most structs, texts and ids in all arrays together; None: as many as the bytes hold. Numbers in
        arrays do not count: they take nine times their bytes, and hardly any time."""
        self.message = message
        self.version = version
        self.flexible = flexible
        self.stepwise = stepwise
        self.elements_max = elements_max
        self.lines: list[str] = []
        self.depth = 2
        self.pending: list[tuple[str, str]] = []
        self.counter = 0
        self.known: dict[str, Any] = {
            "new": object.__new__,
            "length_tail": primitives.length_tail,
            "length_not_null": primitives.length_not_null,
            "skip_tagged_fields": primitives.skip_tagged_fields,
            "read_unsigned_varint": primitives.read_unsigned_varint,
            "read_long_array": primitives.read_long_array,
            "refuse_null": refuse_null,
            "refuse_count": refuse_count,
            "refuse_elements": refuse_elements,
            "refuse_tag": refuse_tag,
        }

    def source(self) -> str:
        self.structure(self.message, "value")
        name = f"{self.message.__name__} version {self.version}"
        return "\n".join(
            [
                "def decode(data, at):",
                "    if data.__class__ is not memoryview: data = memoryview(data)",
                "    size = len(data)",
                *([] if self.elements_max is None else [f"    left = {self.elements_max}"]),
                "    try:",
                *self.lines,
                "    except (IndexError, StructError) as cause:",
                f"        raise MalformedMessage(f'{name}: {{cause}}') from cause",
                f"    if at > size: raise MalformedMessage(f'{name}: {{at}} bytes announced in {{size}}')",
                "    return value, at",
            ]
        )

    # lines and names

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def constant(self, value: Any, stem: str) -> str:
        """Return the name for a value, always the same one for the same value."""
        for name, other in self.known.items():
            if other is value:
                return name
        name = self.fresh(stem)
        self.known[name] = value
        return name

    # runs of fixed width

    def later(self, target: str, code: str) -> None:
        """Read `target` together with its neighbours, at the next flush."""
        self.pending.append((target, code))

    def flush(self) -> None:
        """Read what is pending: one unpack, or an index when it is a single byte."""
        if not self.pending:
            return
        targets = ", ".join(target for target, _ in self.pending)
        codes = "".join(code for _, code in self.pending)
        self.pending = []
        if codes == "B":
            self.line(f"{targets} = data[at]")
            self.line("at += 1")
            return
        unpack = "unpack_" + codes.replace("?", "t")
        layout = Layout(f">{codes}")
        self.known[unpack] = layout.unpack_from
        comma = "," if len(codes.lstrip("0123456789")) == 1 else ""
        self.line(f"{targets}{comma} = {unpack}(data, at)")
        self.line(f"at += {layout.size}")

    # structs

    def structure(self, struct: type[Struct], target: str) -> None:
        """Write the lines that make a struct in the local name `target` and read its fields."""
        self.flush()
        self.line(f"{target} = new({self.constant(struct, 'Class')})")
        present = [line for line in struct.FIELDS if self.version in line.versions]
        for line in struct.FIELDS:
            if line not in present or line.is_tagged():
                self.set_default(line, target)
        for line in present:
            if not line.is_tagged():
                self.value(line.wire, f"{target}.{line.name}", self.version in line.nullable)
        if self.flexible:
            self.tagged([line for line in present if line.is_tagged()], target)
        else:
            self.flush()

    def set_default(self, line: Field, target: str) -> None:
        if line.default is not ABSENT:
            simple = line.default is None or isinstance(line.default, int | str)
            default = repr(line.default) if simple else self.constant(line.default, "default")
        else:
            default = "[]" if isinstance(line.wire, Array) else f"{self.constant(line.wire, 'Class')}()"
        self.line(f"{target}.{line.name} = {default}")

    def tagged(self, known: list[Field], target: str) -> None:
        count = self.fresh("tags")
        self.later(count, "B")
        self.flush()
        if not known:
            self.line(f"if {count}: at = skip_tagged_fields(data, at, {count})")
            return
        tag, length, end = self.fresh("tag"), self.fresh("length"), self.fresh("end")
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > 127: {count}, at = read_unsigned_varint(data, at - 1)")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        for name in (tag, length):
            self.line(f"{name} = data[at]")
            self.line("at += 1")
            self.line(f"if {name} > 127: {name}, at = read_unsigned_varint(data, at - 1)")
        self.line(f"{end} = at + {length}")
        self.line(f"if {end} > size: refuse_tag({tag}, size, {end})")
        for word, line in zip(["if"] + ["elif"] * len(known), known, strict=False):
            self.line(f"{word} {tag} == {line.tag}:")
            self.depth += 1
            self.value(line.wire, f"{target}.{line.name}", self.version in line.nullable)
            self.flush()
            self.line(f"if at != {end}: refuse_tag({tag}, at, {end})")
            self.depth -= 1
        self.line(f"at = {end}")
        self.depth -= 2

    # values

    def value(self, wire: WireType, target: str, nullable: bool) -> None:
        if isinstance(wire, Fixed):
            self.later(target, wire.code)
        elif isinstance(wire, Sized):
            self.sized(wire, target, nullable)
        elif isinstance(wire, Array):
            self.array(wire, target, nullable)
        elif nullable:
            self.nullable_structure(wire, target)
        else:
            self.flush()
            local = self.fresh("part")
            self.structure(wire, local)
            self.line(f"{target} = {local}")

    def nullable_structure(self, struct: type[Struct], target: str) -> None:
        """Write the lines for a struct that may be null: a byte, which is below zero for null, and else the struct."""
        present, local = self.fresh("present"), self.fresh("part")
        self.later(present, "b")
        self.flush()
        self.line(f"if {present} < 0: {target} = None")
        self.line("else:")
        self.depth += 1
        self.structure(struct, local)
        self.line(f"{target} = {local}")
        self.depth -= 1

    def length(self, code: str, target: str, nullable: bool, most: str = "") -> tuple[str, str]:
        """Write the lines that read a length; the lines after it belong to the branch in which it is not null.

        Return its name and the expression for the true length. `most`: the argument for the limit of a compact length,
        plus 1. If `nullable`, the caller reduces `self.depth` by 1 at the branch's end.
        """
        name = self.fresh("n")
        self.later(name, "B" if self.flexible else code)
        self.flush()
        if nullable:
            self.line(f"if {name} {'== 0' if self.flexible else '< 0'}: {target} = None")
            self.line("else:")
            self.depth += 1
        if not self.flexible:
            if not nullable:
                self.line(f"if {name} < 0: refuse_null(at)")
            return name, name
        if nullable:
            self.line(f"if {name} > 127: {name}, at = length_tail(data, at, {name}{most})")
        else:
            self.line(f"if not 0 < {name} < 128: {name}, at = length_not_null(data, at, {name}{most})")
        return name, f"{name} - 1"

    def sized(self, wire: Sized, target: str, nullable: bool) -> None:
        most = f", {primitives.TEXT_BYTES_MAX + 1}" if wire is STRING else ""
        _, length = self.length(wire.length_code, target, nullable, most)
        end = self.fresh("end")
        self.line(f"{end} = at + {length}")
        if wire is STRING:
            self.line(f"{target} = data[at:{end}].tobytes().decode('utf-8', 'text-like-java')")
        elif wire is RECORDS:
            self.line(f"{target} = data[at:{end}]")
        else:
            self.line(f"{target} = data[at:{end}].tobytes()")
        self.line(f"at = {end}")
        if nullable:
            self.depth -= 1

    def array(self, wire: Array, target: str, nullable: bool) -> None:
        name, count = self.length("i", target, nullable)
        element = wire.element
        if isinstance(element, Fixed) and element.code != "16s":
            readers = f"read_{element.code}"
            self.known[readers] = primitives.array_readers(element.code)
            most = primitives.SHORT_ARRAY + (1 if self.flexible else 0)
            self.line(f"if {name} <= {most}:")
            self.line(f"    {target} = list({readers}[{count}](data, at))")
            self.line(f"else: {target} = read_long_array(data, at, {count}, {element.code!r})")
            self.line(f"at += ({count}) * {element.width}" if self.flexible else f"at += {name} * {element.width}")
        else:
            self.elements(element, name, count, target)
        if nullable:
            self.depth -= 1

    def elements(self, element: Fixed | Sized | type[Struct], name: str, count: str, target: str) -> None:
        items, item = self.fresh("items"), self.fresh("item")
        smallest = least_width(element, self.version, self.flexible)
        product = f"({count}) * {smallest}" if smallest > 1 else count
        self.line(f"if {product} > size - at: refuse_count({count}, at, size)")
        if self.elements_max is not None:
            self.line(f"left -= {count if count == name else f'({count})'}")
            self.line(f"if left < 0: refuse_elements({self.elements_max})")
        self.line(f"{items} = []")
        self.line(f"for _ in range({'1, ' if self.flexible else ''}{name}):")
        self.depth += 1
        if isinstance(element, type):
            self.structure(element, item)
        else:
            self.value(element, item, False)
            self.flush()
        self.line(f"{items}.append({item})")
        if self.stepwise and isinstance(element, type):
            self.line("yield")
        self.depth -= 1
        self.line(f"{target} = {items}")


def least_width(wire: WireType, version: int, flexible: bool, nullable: bool = False) -> int:
    """Return the fewest bytes that a value can take, at least one, so that the bytes limit an array's elements."""
    if isinstance(wire, Fixed):
        return wire.width
    if isinstance(wire, Sized):
        return 1 if flexible else Layout(f">{wire.length_code}").size
    if isinstance(wire, Array):
        return 1 if flexible else 4
    if nullable:
        return 1
    present = [line for line in wire.FIELDS if version in line.versions and not line.is_tagged()]
    total = sum(least_width(line.wire, version, flexible, version in line.nullable) for line in present)
    return max(1, total + (1 if flexible else 0))


def flexible_in(message: type[Struct], version: int) -> bool:
    return issubclass(message, Message) and version >= message.FLEXIBLE_FROM
