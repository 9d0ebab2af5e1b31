"""Headers of records that were read: lists that records share, and that nobody can change."""

import copy
import json
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.consumer.chunks import Chunk, Reader
from odradek.client.records import TopicPartition
from odradek.protocol.records import encode_batch

WITH: list[tuple[str, bytes | None]] = [("n", b"1")]


def read(*headers: list[tuple[str, bytes | None]]) -> list[Any]:
    """Return the headers of records, as they are read, that were written with these."""
    nothing: list[bytes | None] = [None] * len(headers)
    data = encode_batch(0, [0] * len(headers), nothing, nothing, headers=headers if any(headers) else None)
    reader = Reader(Chunk(TopicPartition("t", 0), memoryview(data), 0, 0, None), None, None, check_crcs=True)
    return [record.headers for record in reader.take(0, len(headers))]


def all_kinds() -> list[Any]:
    """Headers of a batch in which a record has some, and of one in which none has."""
    return [*read([], WITH), *read([])]


def test_headers_are_lists_of_pairs() -> None:
    headers = all_kinds()
    assert headers == [[], WITH, []]
    assert all(isinstance(one, list) for one in headers)
    assert json.dumps(headers[0]) == "[]"


@pytest.mark.parametrize(
    "change",
    [
        lambda headers: headers.append(("x", b"")),
        lambda headers: headers.extend([("x", b"")]),
        lambda headers: headers.insert(0, ("x", b"")),
        lambda headers: headers.pop(),
        lambda headers: headers.remove(("n", b"1")),
        lambda headers: headers.clear(),
        lambda headers: headers.sort(key=len),
        lambda headers: headers.reverse(),
        lambda headers: operator.iadd(headers, [("x", b"")]),
        lambda headers: operator.imul(headers, 2),
        lambda headers: operator.setitem(headers, slice(0, 0), [("x", b"")]),
        lambda headers: operator.delitem(headers, slice(0, 1)),
    ],
)
def test_headers_that_were_read_refuse_to_be_changed(change: Callable[[Any], object]) -> None:
    """With and without content: what an application does to them fails with its first record, not with some later."""
    before = all_kinds()
    for headers in before:
        with pytest.raises(TypeError, match="make a new list"):
            change(headers)
    assert before == all_kinds() == [[], WITH, []]


@pytest.mark.parametrize(
    "own",
    [list, copy.copy, copy.deepcopy, lambda headers: pickle.loads(pickle.dumps(headers)), lambda headers: headers[:]],
)
def test_a_copy_of_headers_is_a_list_like_any_other(own: Callable[[Any], list[Any]]) -> None:
    for headers in all_kinds():
        copied = own(headers)
        assert copied == headers
        assert type(copied) is list
        copied.append(("x", b""))
        assert len(copied) == len(headers) + 1
