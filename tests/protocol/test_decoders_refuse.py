"""Decoders and bytes that are not what they should be: MalformedMessage and nothing else, and little memory."""

import random
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.codec import compiled_decoder, decode, decode_limited, decoder, encode
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Message, Struct
from odradek.protocol.headers import API_NAMES, message_classes
from odradek.protocol.messages.consumer_offsets import GroupMetadataValue
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.messages.transaction_state import TransactionLogValue
from odradek.protocol.primitives import write_unsigned_varint
from odradek.protocol.records import decode_headers, encode_headers
from odradek.protocol.steps import at_once

REQUESTS: list[type[Message]] = [message_classes(key).request for key in API_NAMES]
OTHERS: list[type[Message]] = [ConsumerProtocolSubscription, GroupMetadataValue, TransactionLogValue]
EVERY_VERSION = [
    (message, version)
    for message in [*REQUESTS, *OTHERS]
    for version in range(message.VERSIONS[0], message.VERSIONS[1] + 1)
]
NASTY = [0x00, 0x01, 0x7F, 0x80, 0xFF]
BYTES_PER_FRAME_BYTE = 250
"""The most that a decoded message takes for one byte of its frame: an object with all its fields for an element of
two or three bytes."""


def deep_size(value: Any) -> int:
    size = sys.getsizeof(value)
    if isinstance(value, list):
        return size + sum(map(deep_size, value))
    if isinstance(value, Struct):
        return size + sum(deep_size(getattr(value, line.name)) for line in value.FIELDS)
    return size


def tried(message: type[Message], version: int, data: bytes) -> None:
    try:
        value, at = decoder(message, version)(memoryview(data), 0)
    except MalformedMessage:
        return
    assert 0 <= at <= len(data)
    assert deep_size(value) <= 3000 + BYTES_PER_FRAME_BYTE * len(data)


def mutated(chance: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        if not out:
            break
        at = chance.randrange(len(out))
        match chance.randrange(4):
            case 0:
                out[at] = chance.choice(NASTY)
            case 1:
                out[at : at + 4] = b"\x7f\xff\xff\xff"
            case 2:
                del out[at : at + chance.randrange(1, 5)]
            case _:
                out[at:at] = chance.choice([b"\xff\xff\xff\xff\x0f", b"\x80\x00", b"\xff\xff\xff\xff"])
    return bytes(out)


@pytest.mark.parametrize("message", [*REQUESTS, *OTHERS], ids=lambda message: message.__name__)
def test_mutated_messages(message: type[Message], random_messages: Any) -> None:
    lowest, highest = message.VERSIONS
    for version in range(lowest, highest + 1):
        for _ in range(4):
            data = encode(random_messages.message(message, version), version)
            for _ in range(5):
                tried(message, version, mutated(random_messages.random, data))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.sampled_from(EVERY_VERSION), st.binary(max_size=120))
def test_random_bytes(which: tuple[type[Message], int], data: bytes) -> None:
    tried(*which, data)


@pytest.mark.parametrize("version", [11, 12])
def test_the_elements_of_all_arrays_are_counted_together(version: int) -> None:
    topic = FetchTopic(topic="t", partitions=[FetchPartition(), FetchPartition()])
    forgotten = [ForgottenTopic(topic="f", partitions=[1, 2, 3])]
    data = encode(FetchRequest(topics=[topic, topic], forgotten_topics_data=forgotten), version)
    elements = 2 + 2 * 2 + 1  # and numbers, which cost little
    for stepwise in (False, True):

        def decoded(elements_max: int, stepwise: bool = stepwise) -> Any:
            found: Any = compiled_decoder(FetchRequest, version, stepwise=stepwise, elements_max=elements_max)(data, 0)
            return at_once(found) if stepwise else found

        assert decoded(elements)[1] == len(data)
        with pytest.raises(MalformedMessage, match=f"more than {elements - 1} elements in the arrays of one message"):
            decoded(elements - 1)


@pytest.mark.parametrize(("message", "version"), EVERY_VERSION)
def test_who_counts_elements_decodes_the_same(message: type[Message], version: int, random_messages: Any) -> None:
    data = encode(random_messages.message(message, version), version)
    assert decode_limited(message, version, data, 0) == decoder(message, version)(data, 0)


@pytest.mark.parametrize("version", [7, 9])
def test_every_truncation(version: int, random_messages: Any) -> None:
    for message in (ProduceRequest, FetchRequest, MetadataRequest):
        data = encode(random_messages.message(message, version), version)
        for length in range(len(data)):
            with pytest.raises(MalformedMessage):
                decode(message, version, data[:length])


@pytest.mark.parametrize(
    ("message", "version", "frame"),
    [
        pytest.param(MetadataRequest, 1, "7fffffff", id="array of structs"),
        pytest.param(MetadataRequest, 9, "ffffffff07", id="compact array of structs"),
        pytest.param(FetchRequest, 12, "0000000000000000000000000000000000000000000000000000 ffffffff07", id="topics"),
        pytest.param(ProduceRequest, 9, "00 ffff 00000000 02 0161 02 00000000 ffffffff07", id="records"),
        pytest.param(SyncGroupRequest, 0, "7fff", id="string"),
    ],
)
def test_nothing_is_allocated_for_what_is_only_announced(message: type[Message], version: int, frame: str) -> None:
    data = bytes.fromhex(frame)
    decoder(message, version)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            decode(message, version, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000


def test_long_arrays_of_integers_are_bounded_too() -> None:
    forgotten = bytes.fromhex("00000000 00000000 00000000 00000000 00 00000000 00000000 00000000") + bytes.fromhex(
        "00000001 0001 61 7fffffff 00000000"
    )
    with pytest.raises(MalformedMessage, match="2147483647 elements"):
        decode(FetchRequest, 7, forgotten)


@pytest.mark.parametrize("length", ["ffff", "fffe", "8000"])
def test_negative_lengths_only_where_null_is_allowed(length: str) -> None:
    group = bytes.fromhex(length) + bytes(20)
    with pytest.raises(MalformedMessage, match="null where a value is needed"):
        decoder(SyncGroupRequest, 0)(group, 0)
    produce = bytes.fromhex(length) + bytes(10)
    assert decode(ProduceRequest, 3, produce).transactional_id is None


def test_null_array_only_where_allowed() -> None:
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(MalformedMessage):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert decode(MetadataRequest, 9, b"\0\0\0\0\0").topics is None
    before_topics = bytes(25)
    with pytest.raises(MalformedMessage, match="null where a value is needed"):
        decode(FetchRequest, 12, before_topics + b"\0\1\1\0")
    assert decode(FetchRequest, 12, before_topics + b"\1\1\1\0").topics == []


def test_an_overlong_null_does_not_move_the_position_back() -> None:
    with pytest.raises(MalformedMessage, match="compact length of 0"):
        decode(MetadataRequest, 9, bytes.fromhex("8000 00 00 00 00"))


def test_a_known_tag_must_fill_its_size() -> None:
    plain = encode(FetchRequest(), 12)
    with_cluster = encode(FetchRequest(cluster_id="abc"), 12)
    assert with_cluster == plain[:-1] + bytes.fromhex("01 00 04 04616263")
    assert decode(FetchRequest, 12, with_cluster).cluster_id == "abc"
    for wrong in ("01 00 05 04616263 00", "01 00 03 04616263", "01 00 30 04616263"):
        with pytest.raises(MalformedMessage):
            decode(FetchRequest, 12, plain[:-1] + bytes.fromhex(wrong))


def test_unknown_tags_and_tags_of_other_versions_are_skipped() -> None:
    """Tag 1 is ReplicaState, from version 15 on: below, it is nobody's and its content does not matter."""
    plain = encode(FetchRequest(max_wait_ms=3), 12)
    data = plain[:-1] + bytes.fromhex("02 01 03 aabbcc 8f01 00")
    assert decode(FetchRequest, 12, data) == FetchRequest(max_wait_ms=3)


def test_text_that_is_not_utf_8_gets_replacement_characters() -> None:
    """As in Kafka: a program whose group has a name in Latin-1 was not served."""
    for version, data in ((0, "00000001 0005 636166e921"), (9, "02 06 636166e921 00 00 00 00 00")):
        topics = decode(MetadataRequest, version, bytes.fromhex(data)).topics
        assert topics is not None and [one.name for one in topics] == ["caf\ufffd!"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("eda080", "?"),
        ("eda080edbfbf", "??"),
        ("61eda08062", "a?b"),
        ("eda0", "?"),
        ("eda041", "?A"),
        ("edc3a9", "?\u00e9"),
        ("ed9fbf", "\ud7ff"),
        ("f4908080", "????"),
        ("e28261", "?a"),
        ("c080", "??"),
    ],
)
def test_what_is_not_utf_8_is_replaced_as_by_javas_string(data: str, text: str) -> None:
    """Compared with Java 17: a surrogate is one replacement character there, and was three here."""
    name = bytes.fromhex(data)
    request = bytes.fromhex("00000001") + len(name).to_bytes(2, "big") + name
    topics = decode(MetadataRequest, 0, request).topics
    assert topics is not None and [one.name for one in topics] == [text.replace("?", "\ufffd")]
    assert decode_headers(encode_headers([("?", b"")]).replace(b"\x02?", bytes([2 * len(name)]) + name)) == [
        (text.replace("?", "\ufffd"), b"")
    ]


@pytest.mark.parametrize("version", [0, 5])
def test_a_text_fits_into_a_length_of_16_bits_however_it_came(version: int) -> None:
    """A group whose name was longer, by its bytes or by replacement characters, was in no list of groups any more: who
    asked with an old version was cut off."""

    def decoded(name: bytes) -> str:
        compact = write_unsigned_varint(len(name) + 1)
        flexible = b"\x02" + compact + name + b"\0\0"
        plain = b"\0\0\0\1" + (len(name) & 0xFFFF).to_bytes(2, "big") + name
        return decode(DescribeGroupsRequest, version, flexible if version == 5 else plain).groups[0]

    for name in (b"g" * 32_767, b"\xff" * 10_922, b"g" * 10_921 + b"\xff"):
        assert len(decoded(name)) == len(name)
    for name in (b"g" * 32_768, b"\xff" * 10_923, b"\xff" * 32_767):
        with pytest.raises(MalformedMessage):
            decoded(name)
