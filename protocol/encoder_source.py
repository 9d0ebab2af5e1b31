"""Writes the source of an encoder: a function for one class and one version.

The function appends pieces to a list. A run of fixed-width fields is one pack, together with what follows it: a length
of fixed width, or the tag buffer of a struct that has no tagged fields. Records are appended as they are.

Values come from this program, so they are not checked: None in a version without null, or a number too large for its
field, raises what Python raises. Texts may come from others: one that is too long for a string raises TextTooLong in
every version, as no reader accepts it. Texts for people are cut instead: they quote requests, whose texts may be as
long as a string can be.

An array that is marked as shared may be a SharedArray; its encoding is then appended.
"""

from struct import Struct as Layout
from typing import Any

from odradek.protocol import primitives
from odradek.protocol.errors import TextTooLong
from odradek.protocol.fields import RECORDS, STRING, Array, Field, Fixed, SharedArray, Sized, Struct, WireType

TEXTS = frozenset({"error_message", "batch_index_error_message"})
"""Fields with a text for people, or null."""


def refuse_text(size: int) -> None:
    raise TextTooLong(f"a text has at most {primitives.TEXT_BYTES_MAX} bytes, not {size}")


class EncoderSource:
    """Collects the lines of one encoder and the names that they use (`known`)."""

    def __init__(self, message: type[Struct], version: int, flexible: bool, *, stepwise: bool) -> None:
        """`stepwise`: make it a generator that yields after each struct of an array."""
        self.message = message
        self.version = version
        self.flexible = flexible
        self.stepwise = stepwise
        self.lines: list[str] = []
        self.depth = 1
        self.pending: list[tuple[str, str]] = []
        self.counter = 0
        self.known: dict[str, Any] = {
            "varint": primitives.unsigned_varint,
            "write_long_array": primitives.write_long_array,
            "short_varints": primitives.UNSIGNED_VARINTS,
            "refuse_text": refuse_text,
        }

    def source(self) -> str:
        self.structure(self.message, "value", "parts")
        self.flush("parts")
        if self.stepwise and not any(line.endswith("yield") for line in self.lines):
            self.line("yield")
        elif not self.lines:
            self.line("pass")
        return "\n".join(["def encode(value, parts):", *self.lines])

    # lines and names

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    # runs of fixed width

    def later(self, expression: str, code: str) -> None:
        """Write `expression` together with its neighbours, at the next flush; an empty one writes zero bytes."""
        self.pending.append((expression, code))

    def packed(self, *more: tuple[str, str]) -> str:
        """Return the expression that packs all pending values and `more`; empty if there are none."""
        run = [*self.pending, *more]
        if not run:
            return ""
        codes = "".join(code for _, code in run)
        values = ", ".join(value for value, _ in run if value)
        if not values:
            return repr(bytes(len(codes)))
        pack = "pack_" + codes.replace("?", "t")
        self.known[pack] = Layout(f">{codes}").pack
        return f"{pack}({values})"

    def flush(self, parts: str) -> None:
        packed = self.packed()
        if packed:
            self.line(f"{parts}.append({packed})")
        self.pending = []

    # structs

    def structure(self, struct: type[Struct], source: str, parts: str) -> None:
        """Write the lines for the fields of the struct in the local name `source`; the last run stays pending."""
        present = [line for line in struct.FIELDS if self.version in line.versions]
        for line in present:
            if not line.is_tagged():
                expression = f"{source}.{line.name}"
                if line.name in TEXTS and self.version in line.nullable and isinstance(line.wire, Sized):
                    self.nullable(line.wire, expression, parts, cut=True)
                else:
                    self.value(line.wire, expression, self.version in line.nullable, parts)
        if not self.flexible:
            return
        tagged = sorted((line for line in present if line.is_tagged()), key=lambda line: line.tag or 0)
        if tagged:
            self.tagged(tagged, source, parts)
        else:
            self.later("", "x")

    def tagged(self, tagged: list[Field], source: str, parts: str) -> None:
        """Write the lines for tagged fields: the number of those that differ from their default, then each of them with
        its tag and its size."""
        self.flush(parts)
        total, buffer = self.fresh("tags"), self.fresh("buffer")
        conditions = [self.differs(line, f"{source}.{line.name}") for line in tagged]
        self.line(f"if {' or '.join(conditions)}:")
        self.depth += 1
        self.line(f"{total} = 0")
        self.line(f"{buffer} = []")
        for condition, line in zip(conditions, tagged, strict=True):
            content = self.fresh("content")
            self.line(f"if {condition}:")
            self.depth += 1
            self.line(f"{content} = []")
            self.value(line.wire, f"{source}.{line.name}", self.version in line.nullable, content)
            self.flush(content)
            self.line(f"{content} = b''.join({content})")
            self.line(f"{buffer} += (varint({line.tag}), varint(len({content})), {content})")
            self.line(f"{total} += 1")
            self.depth -= 1
        self.line(f"{parts}.append(varint({total}))")
        self.line(f"{parts} += {buffer}")
        self.depth -= 1
        self.line(f"else: {parts}.append({bytes(1)!r})")

    def differs(self, line: Field, expression: str) -> str:
        """Return the condition under which a tagged field is written."""
        if isinstance(line.wire, Array):
            return expression if line.default is not None else f"{expression} is not None"
        if line.default is None:
            return f"{expression} is not None"
        if line.default in (0, False, ""):
            return expression
        name = self.fresh(f"{line.name}_default")
        self.known[name] = line.default
        return f"{expression} != {name}"

    # values

    def value(self, wire: WireType, expression: str, nullable: bool, parts: str) -> None:
        if isinstance(wire, Fixed):
            self.later(expression, wire.code)
        elif nullable:
            self.nullable(wire, expression, parts)
        elif isinstance(wire, Sized):
            self.sized(wire, expression, parts)
        elif isinstance(wire, Array):
            self.array(wire, expression, parts)
        else:
            local = self.fresh("part")
            self.line(f"{local} = {expression}")
            self.structure(wire, local, parts)

    def nullable(self, wire: Sized | Array | type[Struct], expression: str, parts: str, *, cut: bool = False) -> None:
        """Write the lines for a value that may be None; both branches end with nothing pending.

        `cut`: it is a text for people, which is cut if it is too long.
        """
        local = self.fresh("value")
        self.line(f"{local} = {expression}")
        before = list(self.pending)
        self.line(f"if {local} is None:")
        self.depth += 1
        if isinstance(wire, type):
            self.later("-1", "b")
        elif self.flexible:
            self.later("", "x")
        else:
            self.later("-1", wire.length_code if isinstance(wire, Sized) else "i")
        self.flush(parts)
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        self.pending = before
        if isinstance(wire, type):
            self.later("1", "b")
            self.structure(wire, local, parts)
        elif isinstance(wire, Sized):
            self.sized(wire, local, parts, cut=cut)
        else:
            self.array(wire, local, parts)
        self.flush(parts)
        self.depth -= 1

    def length(self, count: str, code: str, parts: str) -> None:
        """Write the lines for the length in the local name `count`, after the pending run."""
        if not self.flexible:
            self.later(count, code)
            self.flush(parts)
            return
        self.flush(parts)
        small = primitives.SMALL_VARINTS - 1
        self.line(f"{parts}.append(short_varints[{count} + 1] if {count} < {small} else varint({count} + 1))")

    def sized(self, wire: Sized, expression: str, parts: str, *, cut: bool = False) -> None:
        content, count = self.fresh("content"), self.fresh("n")
        if cut:
            self.known["encode_text"] = primitives.encode_text
            self.line(f"{content} = encode_text({expression})")
        else:
            self.line(f"{content} = {expression}{'.encode()' if wire is STRING else ''}")
        self.line(f"{count} = len({content})")
        if wire is STRING and not cut:
            self.line(f"if {count} > {primitives.TEXT_BYTES_MAX}: refuse_text({count})")
        self.length(count, wire.length_code, parts)
        self.line(f"{'if ' + count + ': ' if wire is RECORDS else ''}{parts}.append({content})")

    def array(self, wire: Array, expression: str, parts: str) -> None:
        items, item, count = self.fresh("items"), self.fresh("item"), self.fresh("n")
        self.line(f"{items} = {expression}")
        self.line(f"{count} = len({items})")
        self.length(count, "i", parts)
        element = wire.element
        if isinstance(element, Fixed) and element.code != "16s":
            writers = f"write_{element.code}"
            self.known[writers] = primitives.array_writers(element.code)
            self.line(f"if {count} <= {primitives.SHORT_ARRAY}: {parts}.append({writers}[{count}](*{items}))")
            self.line(f"else: {parts}.append(write_long_array({items}, {element.code!r}))")
            return
        if wire.shared:
            self.known["SharedArray"] = SharedArray
            self.line(f"if {items}.__class__ is SharedArray and {items}.version == {self.version}:")
            self.line(f"    {parts} += {items}.encoding")
            self.line(f"    {items} = ()")
        self.line(f"for {item} in {items}:")
        self.depth += 1
        if isinstance(element, type):
            self.structure(element, item, parts)
        else:
            self.value(element, item, False, parts)
        self.flush(parts)
        if self.stepwise and isinstance(element, type):
            self.line("yield")
        self.depth -= 1
