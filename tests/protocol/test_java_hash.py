"""Java's hash of texts: values that Java computes."""

import pytest

from odradek.protocol.topic_names import java_hash


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("é", 233),
        ("hello", 99162322),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(2**31)),
        ("topic", 110546223),
        ("😀", 0xD83D * 31 + 0xDE00),
    ],
)
def test_java_hash(text: str, value: int) -> None:
    assert java_hash(text) == value
