"""Bytes of records as text, JSON or hexadecimal: exactly what is there, cut where it is too much."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.records import ConsumerRecord
from odradek.console.records_view import FORMS, HEADERS_MAX, field_model, hexadecimal, laid_out, record_model


def test_null_and_empty_are_two_things() -> None:
    assert field_model(None) == {"size": None, "form": "null", "text": "", "cut": False}
    assert field_model(b"") == {"size": 0, "form": "text", "text": "", "cut": False}


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (b"hello", "text", "hello"),
        ("häßlich \u202e".encode(), "text", "häßlich \u202e"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
        (b'{"a":1.50,"a":[]}', "json", '{\n  "a": 1.50,\n  "a": []\n}'),
        (b"[1,2", "text", "[1,2"),
        (b"12", "text", "12"),
        (b"\xff\xfe", "hex", "000000  ff fe".ljust(58) + "··"),
        (b"\x00\x00\x00\x01ab", "hex", "000000  00 00 00 01 61 62".ljust(58) + "····ab"),
    ],
)
def test_as_it_is(data: bytes, form: str, text: str) -> None:
    model = field_model(data)
    assert (model["form"], model["text"]) == (form, text)


def test_what_is_asked_for() -> None:
    assert field_model(b"ab", "hex")["text"].startswith("000000  61 62")
    assert field_model(b'{"a":1}', "text")["text"] == '{"a":1}'
    assert field_model(b"\xffa", "text") == {"size": 2, "form": "text", "text": "\ufffda", "cut": False}
    assert field_model(b"\x01\x02", "json")["form"] == "text"


def test_ten_megabytes_are_cut_and_their_size_is_said() -> None:
    model = field_model(b"x" * 10_000_000, bytes_max=400)
    assert model == {"size": 10_000_000, "form": "text", "text": "x" * 400, "cut": True}


def test_a_character_cut_in_two_does_not_make_text_binary() -> None:
    assert field_model("ä".encode() * 10, bytes_max=5)["text"] == "ää"


def test_deep_json_is_text() -> None:
    assert field_model(b"[" * 60_000, bytes_max=65_536)["form"] == "text"


@given(st.binary(max_size=200), st.sampled_from(FORMS), st.integers(1, 64))
def test_any_bytes_can_be_shown(data: bytes, form: str, most: int) -> None:
    model = field_model(data, form, most)
    assert model["size"] == len(data) and model["cut"] == (len(data) > most)
    json.dumps(model).encode()


@given(st.binary(max_size=100))
def test_hexadecimal_can_be_read_back(data: bytes) -> None:
    assert b"".join(bytes.fromhex(row[8:56]) for row in hexadecimal(data).splitlines()) == data


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda some: st.lists(some) | st.dictionaries(st.text(), some),
    max_leaves=6,
)


@given(json_values.filter(lambda value: isinstance(value, (list, dict))))
def test_laid_out_json_is_the_same_json(value: object) -> None:
    assert json.loads(laid_out(json.dumps(value))) == value


def test_headers_beyond_the_limit_are_counted() -> None:
    headers = [("h", b"v")] * (HEADERS_MAX + 3)
    model = record_model(ConsumerRecord("t", 1, 7, 5, 0, None, b"v", headers, -1))
    assert len(model["headers"]) == HEADERS_MAX and model["headers_left_out"] == 3
    assert (model["partition"], model["offset"], model["at_ms"], model["appended"]) == (1, 7, 5, False)
