"""What the generated codecs promise beyond Kafka's layout: golden bytes, records, defaults, constructors.

The bytes are written by hand; kio judges all messages in test_messages_against_kio.py.
"""

import pytest

from odradek.protocol import codec
from odradek.protocol.codec import decode, decoder, encode, encode_in_steps, encoder, share, stepwise_decoder
from odradek.protocol.errors import MalformedMessage, TextTooLong
from odradek.protocol.fields import Array, Message, Struct
from odradek.protocol.headers import API_NAMES, message_classes
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.primitives import Part
from odradek.protocol.steps import at_once


class FileRange:
    """Stands for bytes in a file that are sent from there: all the codec asks of it is its length."""

    def __len__(self) -> int:
        return 1000


def produce(records: object) -> ProduceRequest:
    partition = PartitionProduceData(index=1, records=records)
    return ProduceRequest(
        acks=-1, timeout_ms=30000, topic_data=[TopicProduceData(name="t", partition_data=[partition])]
    )


GOLDEN = [
    (produce(b"abc"), 0, "ffff 00007530 00000001 0001 74 00000001 00000001 00000003 616263"),
    (produce(b"abc"), 3, "ffff ffff 00007530 00000001 0001 74 00000001 00000001 00000003 616263"),
    (produce(b"abc"), 9, "00 ffff 00007530 02 0274 02 00000001 04 616263 00 00 00"),
    (produce(None), 9, "00 ffff 00007530 02 0274 02 00000001 00 00 00 00"),
    (MetadataRequest(topics=None), 12, "00 01 00 00"),
    (MetadataRequest(topics=[]), 12, "01 01 00 00"),
    (MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 12, f"02 {'00' * 16} 00 00 01 00 00"),
    (
        ApiVersionsResponse(api_keys=[ApiVersion(api_key=0, max_version=11)], finalized_features_epoch=7),
        3,
        "0000 02 0000 0000 000b 00 00000000 01 01 08 0000000000000007",
    ),
    (ApiVersionsResponse(api_keys=[ApiVersion(api_key=0, max_version=11)]), 0, "0000 00000001 0000 0000 000b"),
]


@pytest.mark.parametrize(("message", "version", "expected"), GOLDEN)
def test_golden_bytes(message: Message, version: int, expected: str) -> None:
    assert encode(message, version) == bytes.fromhex(expected)
    assert decode(type(message), version, bytes.fromhex(expected)) == message


def test_a_long_string_and_a_long_array_have_lengths_of_more_than_one_byte() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="x" * length) for length in (126, 127, 510, 511, 9000)])
    request.topics = [*(request.topics or []), *[MetadataRequestTopic(name="y")] * 16400]
    data = encode(request, 9)
    assert data[:3] == bytes.fromhex("968001")
    assert decode(MetadataRequest, 9, data) == request


@pytest.mark.parametrize("version", [1, 7])
@pytest.mark.parametrize("letter", ["x", "ü", "€"])
def test_a_text_for_people_is_cut_where_it_is_longer_than_a_string_may_be(version: int, letter: str) -> None:
    """It quotes names and values of requests: old versions could not be encoded, flexible ones not be decoded."""
    for length in (1000, 0x7FFF // len(letter.encode()), 0x7FFF // len(letter.encode()) + 1, 40_000):
        text = letter * length
        answer = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=17, error_message=text)])
        told = decode(CreateTopicsResponse, version, encode(answer, version)).topics[0].error_message
        assert told is not None
        assert told == text or (len(text.encode()) > 0x7FFF and told.endswith("…") and text.startswith(told[:-1]))
        assert len(told.encode()) in (len(text.encode()), 0x7FFF, 0x7FFE, 0x7FFD)


def test_records_pass_through_the_encoder_as_they_are() -> None:
    records = FileRange()
    partition = PartitionData(partition_index=0, high_watermark=5, aborted_transactions=None, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    parts: list[Part] = []
    encoder(FetchResponse, 12)(response, parts)
    at = next(index for index, part in enumerate(parts) if part is records)
    assert b"".join(parts[:at]).endswith(b"\xe9\x07")
    assert b"".join(parts[at + 1 :]) == b"\0\0\0"
    with_size = sum(map(len, parts))
    assert with_size == len(
        encode(
            FetchResponse(
                responses=[
                    FetchableTopicResponse(
                        topic="t",
                        partitions=[
                            PartitionData(
                                partition_index=0, high_watermark=5, aborted_transactions=None, records=bytes(1000)
                            )
                        ],
                    )
                ]
            ),
            12,
        )
    )


@pytest.mark.parametrize("version", [7, 9])
def test_decoded_records_are_slices_of_the_input(version: int) -> None:
    data = bytearray(encode(produce(b"0123456789"), version))
    request, at = decoder(ProduceRequest, version)(memoryview(data), 0)
    assert at == len(data)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert not records.readonly
    records[0:1] = b"X"
    assert b"X123456789" in data
    assert isinstance(request.topic_data[0].name, str)


def test_records_of_bytes_are_a_view_too() -> None:
    request = decode(ProduceRequest, 9, encode(produce(b"abc"), 9))
    assert isinstance(request.topic_data[0].partition_data[0].records, memoryview)


def test_a_decoder_starts_where_it_is_told() -> None:
    data = b"header" + encode(produce(b"abc"), 9) + b"rest"
    request, at = decoder(ProduceRequest, 9)(data, 6)
    assert (request, data[at:]) == (produce(b"abc"), b"rest")
    with pytest.raises(MalformedMessage, match="4 bytes are left over"):
        decode(ProduceRequest, 9, data[6:])


def test_fields_of_other_versions_are_left_out_and_have_their_defaults() -> None:
    request = FetchRequest(max_bytes=5, session_id=9, rack_id="r", cluster_id="c")
    assert encode(request, 3) == encode(FetchRequest(max_bytes=5), 3)
    assert decode(FetchRequest, 3, encode(request, 3)) == FetchRequest(max_bytes=5)
    assert decode(FetchRequest, 0, encode(request, 0)).max_bytes == 0x7FFFFFFF


def test_an_absent_tagged_struct_is_none_and_a_present_one_is_written_even_when_empty() -> None:
    def response(partition: PartitionData) -> FetchResponse:
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])

    absent = decode(FetchResponse, 12, encode(response(PartitionData()), 12))
    assert absent.responses[0].partitions[0].diverging_epoch is None
    present = response(PartitionData(diverging_epoch=EpochEndOffset()))
    assert decode(FetchResponse, 12, encode(present, 12)) == present


def test_every_value_has_its_own_lists() -> None:
    assert FetchRequest().topics is not FetchRequest().topics
    data = encode(FetchRequest(), 0)
    one, other = decode(FetchRequest, 0, data), decode(FetchRequest, 0, data)
    assert one.forgotten_topics_data == []
    assert one.forgotten_topics_data is not other.forgotten_topics_data


def test_messages_are_slotted_keyword_only_and_equal_by_value() -> None:
    with pytest.raises(TypeError):
        FetchRequest(1)  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError):
        FetchRequest(max_wait=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchRequest().max_wait = 1  # type: ignore[attr-defined]
    assert FetchRequest(max_wait_ms=1) == FetchRequest(max_wait_ms=1) != FetchRequest(max_wait_ms=2)
    assert FetchRequest() != MetadataRequest()
    assert repr(EpochEndOffset(epoch=3)) == "EpochEndOffset(epoch=3, end_offset=-1)"


def test_a_codec_is_made_once() -> None:
    assert decoder(FetchRequest, 12) is decoder(FetchRequest, 12)
    assert encoder(FetchRequest, 12) is encoder(FetchRequest, 12)
    with pytest.raises(AssertionError, match="0-17"):
        encode(FetchRequest(), 18)


@pytest.mark.parametrize("version", range(9))
def test_a_decoder_by_steps_reads_the_same_with_a_pause_after_each_struct(version: int) -> None:
    states = [UpdateMetadataPartitionState(partition_index=index, isr=[1, 2]) for index in range(3)]
    message = UpdateMetadataRequest(
        controller_id=1, topic_states=[UpdateMetadataTopicState(topic_name="t", partition_states=states)],
        ungrouped_partition_states=states, live_brokers=[UpdateMetadataBroker(id=1)],
    )  # fmt: skip
    data = encode(message, version)
    decoded = at_once(stepwise_decoder(UpdateMetadataRequest, version)(data, 0))
    assert decoded == decoder(UpdateMetadataRequest, version)(data, 0)
    pauses = sum(1 for _ in stepwise_decoder(UpdateMetadataRequest, version)(data, 0))
    assert pauses == (4 if version < 5 else 5), "three partitions, their topic, a broker"
    with pytest.raises(MalformedMessage):
        at_once(stepwise_decoder(UpdateMetadataRequest, version)(data[:-1], 0))


@pytest.mark.parametrize("pieces", [1, 1000])
def test_a_message_encoded_in_steps_is_the_same(pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "PIECES_MAX", pieces)
    partitions = [MetadataResponsePartition(partition_index=index, isr_nodes=[1, 2]) for index in range(3)]
    topics = [MetadataResponseTopic(name=name, partitions=partitions) for name in ("a", "b")]
    message = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="h")], topics=topics)
    for version in (0, 8, 12):
        parts: list[Part] = [b"in front"]
        pauses = sum(1 for _ in encode_in_steps(message, version, parts))
        assert b"".join(parts) == b"in front" + encode(message, version)
        assert pauses == 9, "six partitions, their topics, a broker"


@pytest.mark.parametrize("version", [5, 8])
def test_an_array_is_encoded_once_for_all_messages_that_share_it(version: int) -> None:
    states = [UpdateMetadataPartitionState(partition_index=index, isr=[1, 2]) for index in range(3)]
    topics = [UpdateMetadataTopicState(topic_name=name, partition_states=states) for name in ("a", "b")]
    plain = UpdateMetadataRequest(broker_epoch=7, topic_states=topics)
    assert sum(1 for _ in share(UpdateMetadataRequest, version, topics)) == 6
    shared = UpdateMetadataRequest(broker_epoch=7, topic_states=at_once(share(UpdateMetadataRequest, version, topics)))
    assert shared == plain
    parts: list[Part] = []
    encoder(UpdateMetadataRequest, version)(shared, parts)
    assert b"".join(parts) == encode(plain, version)
    assert len(parts) < 8, "nothing of the topics is encoded anew"
    for other in (6, 7):
        assert encode(shared, other) == encode(plain, other), "it was encoded for another version"
    shared.topic_states = at_once(share(UpdateMetadataRequest, version, []))
    assert encode(shared, version) == encode(UpdateMetadataRequest(broker_epoch=7), version)


def annotated(struct: type[Struct], seen: dict[str, type[Struct]]) -> None:
    seen[f"{struct.__module__}.{struct.__name__}"] = struct
    for line in struct.FIELDS:
        inner = line.wire.element if isinstance(line.wire, Array) else line.wire
        if isinstance(inner, type):
            annotated(inner, seen)


def test_annotations_say_null_where_fields_can_be_null() -> None:
    structs: dict[str, type[Struct]] = {}
    for key in API_NAMES:
        annotated(message_classes(key).request, structs)
        annotated(message_classes(key).response, structs)
    assert len(structs) > 250
    for name, struct in structs.items():
        for line in struct.FIELDS:
            may_be_none = line.nullable.lowest <= line.nullable.highest or line.default is None
            annotation = str(struct.__annotations__[line.name])
            assert ("None" in annotation) == may_be_none or annotation == "typing.Any", f"{name}.{line.name}"


@pytest.mark.parametrize("version", [1, 9])
def test_a_text_that_no_string_can_hold_is_refused(version: int) -> None:
    """In a flexible version it was written, and read by nobody."""

    def encoded(name: str) -> bytes:
        return encode(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), version)

    assert len(encoded("x" * 32_767)) > 32_767
    for name in ("x" * 32_768, "\u00e9" * 16_384):
        with pytest.raises(TextTooLong, match="at most 32767 bytes, not 32768"):
            encoded(name)
