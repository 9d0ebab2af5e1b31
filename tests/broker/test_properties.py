"""Java's properties format, line by line."""

import pytest

from odradek.broker.settings.properties import BadProperties, Property, parse_properties, property_line


def pairs(text: str) -> dict[str, str]:
    return {one.key: one.value for one in parse_properties(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t= b c  ", {"a": "b c  "}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("# a=b\n! c=d\n\n   \n  # e=f", {}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("a=b\\", {"a": "b"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\t\\n\\u00e9\\q", {"a": "\t\n\u00e9q"}),
        ("a=\\ud83e\\uddf5 \\ud83e", {"a": "\U0001f9f5 \ufffd"}),
        ("path=C:\\\\logs", {"path": "C:\\logs"}),
    ],
)
def test_entries(text: str, expected: dict[str, str]) -> None:
    assert pairs(text) == expected


def test_lines_are_those_where_an_entry_begins() -> None:
    assert parse_properties("# x\na=1,\\\n  2\n\nb=3") == [Property("a", "1,2", 2), Property("b", "3", 5)]


def test_a_bad_escape_names_its_line() -> None:
    with pytest.raises(BadProperties, match=r"line 2: .*hexadecimal"):
        parse_properties("a=1\nb=\\u12g4")


@pytest.mark.parametrize(
    "value",
    [
        "b",
        "",
        " b ",
        "  b",
        "a=b:c",
        "RULE:^CN=(.*?)\\.example\\.com$/$1/",
        "b\\",
        "C:\\new\\u00e9",
        "a\nb=c\r\td\f",
        "#b",
        "\u00e9",
    ],
)
def test_what_is_written_is_read_as_it_was(value: str) -> None:
    for key in ("a", "a b", "a=b:c", "#a", "a\\"):
        assert parse_properties(property_line(key, value) + property_line("next", "1")) == [
            Property(key, value, 1),
            Property("next", "1", 2),
        ]
