"""Names and small files by which a log directory says what it is and which broker it belongs to.

`meta.properties` (broker and cluster), `.kafka_cleanshutdown`, `.lock`, and in each partition's directory
`partition.metadata`. Sources: MetaProperties, CleanShutdownFileHandler, PartitionMetadata, LocalLog of Kafka 3.9.
"""

import base64
import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from odradek.broker.log.errors import CorruptFile, UnusableDirectory
from odradek.protocol.record_batch import MAX_INT32
from odradek.protocol.topic_names import LEGAL_NAME, PartitionKey

META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
PARTITION_METADATA = "partition.metadata"
DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
SET_ASIDE_SUFFIXES = (DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX)
LONGEST_NAME = 255
NO_BROKER_EPOCH = -1
INT32_DIGITS_MAX = 10
SHOWN_MAX = 40
"""Most characters of an unreadable broker.id that a message repeats."""
RESERVED_DIRECTORY_IDS = 100
"""Ids below stand for no directory: lost, unassigned, migrating (DirectoryId.java)."""


class DirectoryOwner(NamedTuple):
    """The broker that a log directory belongs to."""

    broker_id: int
    cluster_id: str


class MetaProperties(NamedTuple):
    """Contents of `meta.properties`. Each may be missing: before 0.10.1 there was no cluster id, and only brokers on
    their way to KRaft give their directories ids."""

    broker_id: int | None = None
    cluster_id: str | None = None
    directory_id: bytes | None = None


class OtherMode(Exception):  # noqa: N818 - says what it is
    """Error of a directory that a broker in KRaft mode has written."""


def decode_properties(data: bytes) -> dict[str, str]:
    """Decode Java properties, as far as Kafka's own small files use them."""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    pairs = [line.partition("=") for line in lines if line and line[0] not in "#!"]
    return {key.strip(): value.strip().replace("\\", "") for key, _, value in pairs}


def encode_meta(identity: DirectoryOwner, now_ms: int, others: dict[str, str]) -> bytes:
    """Make `meta.properties`; `others` are properties of the file as it was, which are kept (`directory.id`, say)."""
    properties = others | {"broker.id": str(identity.broker_id), "version": "0", "cluster.id": identity.cluster_id}
    date = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    return "".join([f"#\n#{date}\n", *(f"{key}={value}\n" for key, value in properties.items())]).encode()


def decode_meta(data: bytes) -> tuple[MetaProperties, dict[str, str]]:
    """Return what is said of the owner, and all properties. Raises CorruptFile; OtherMode for another version."""
    properties = decode_properties(data)
    version = properties.get("version", "0")
    if version == "1":
        raise OtherMode("meta.properties has version 1: this is not a directory of ZooKeeper mode")
    if version != "0":
        raise CorruptFile(f"meta.properties of version {version!r}")
    broker_id, cluster_id = properties.get("broker.id"), properties.get("cluster.id")
    directory_id = properties.get("directory.id")
    owner = MetaProperties(
        None if broker_id is None else _decode_broker_id(broker_id),
        cluster_id,
        None if directory_id is None else _decode_id("meta.properties with directory.id", directory_id),
    )
    return owner, properties


def _decode_broker_id(text: str) -> int:
    """Read a number of 32 bits. Raises CorruptFile, without most of the digits where there are very many: Python's
    `int` refuses those, and nobody would read them."""
    number = text.removeprefix("-")
    if not number.isdecimal() or len(number) > INT32_DIGITS_MAX or int(number) > MAX_INT32:
        shown = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
        raise CorruptFile(f"meta.properties with broker.id={shown!r}")
    return int(text)


def _decode_id(field: str, text: str) -> bytes:
    """Read the 16 bytes of an id. Raises CorruptFile, with the name of the `field`.

    Python's decoder may take + and / as well, and passes over what is no base64 at all: a rotten character would make
    another id.
    """
    decoded = b""
    if "+" not in text and "/" not in text:
        with contextlib.suppress(ValueError):  # binascii.Error is one; so is a character that is not ASCII
            decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if len(decoded) != 16:
        raise CorruptFile(f"{field}={text!r}")
    return decoded


def common_owner(owners: Mapping[str, MetaProperties]) -> MetaProperties:
    """Find the one owner of directories, by path; each has an id of its own, if any (MetaPropertiesEnsemble.verify).

    Raises UnusableDirectory.
    """
    broker_ids: dict[int, str] = {}
    cluster_ids: dict[str, str] = {}
    directory_ids: dict[bytes, str] = {}
    for path, owner in owners.items():
        if owner.broker_id is not None:
            broker_ids.setdefault(owner.broker_id, path)
        if owner.cluster_id is not None:
            cluster_ids.setdefault(owner.cluster_id, path)
        if owner.directory_id is None:
            continue
        if int.from_bytes(owner.directory_id, "big") < RESERVED_DIRECTORY_IDS:
            raise UnusableDirectory(path, f"its directory.id {encode_topic_id(owner.directory_id)} is reserved")
        first = directory_ids.setdefault(owner.directory_id, path)
        if first != path:
            raise UnusableDirectory(path, f"it has the directory.id of {first}")
    for kind, found in (("brokers", broker_ids), ("clusters", cluster_ids)):
        if len(found) > 1:
            said = ", ".join(f"{path} to {one}" for one, path in found.items())
            raise UnusableDirectory(next(iter(found.values())), f"log.dirs belong to different {kind}: {said}")
    return MetaProperties(next(iter(broker_ids), None), next(iter(cluster_ids), None))


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """Return the marker's content; that it is there is what counts."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(data: bytes) -> int:
    """Return the broker epoch of a marker; NO_BROKER_EPOCH where it does not say one, as those of Kafka's brokers."""
    try:
        return max(int(json.loads(data)["brokerEpoch"]), NO_BROKER_EPOCH)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return NO_BROKER_EPOCH


def encode_topic_id(topic_id: bytes) -> str:
    """Encode a topic id's 16 bytes as Kafka prints them: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """Make the contents of `partition.metadata`."""
    return f"version: 0\ntopic_id: {encode_topic_id(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> bytes:
    """Read the topic id from `partition.metadata`. Raises CorruptFile."""
    fields = dict(line.split(": ", 1) for line in data.decode("utf-8", "replace").splitlines() if ": " in line)
    if fields.get("version", "").strip() != "0" or "topic_id" not in fields:
        raise CorruptFile(f"partition.metadata {fields}")
    return _decode_id("partition.metadata with topic_id", fields["topic_id"].strip())


def partition_name(topic: str, partition: int) -> str:
    """Return the directory of a partition."""
    return f"{topic}-{partition}"


def set_aside_name(topic: str, partition: int, unique: int, kind: str) -> str:
    """Make the name of a partition's directory that waits for its removal (DELETE_SUFFIX), or for people
    (STRAY_SUFFIX).

    `unique` has 128 bits."""
    suffix = f"-{partition}.{unique:032x}{kind}"
    return topic[: LONGEST_NAME - len(suffix)] + suffix


def future_name(topic: str, partition: int, unique: int) -> str:
    """Make the directory's name of a log that is to take the place of the partition's in another directory. May be
    longer than LONGEST_NAME."""
    return f"{topic}-{partition}.{unique:032x}{FUTURE_SUFFIX}"


def replaced_name(name: str) -> str:
    """Return the new name of the log whose place that future log takes: the two are known by each other."""
    return name.removesuffix(FUTURE_SUFFIX) + DELETE_SUFFIX


def parse_future_name(name: str) -> PartitionKey | None:
    """Return (topic, partition) of a future log's directory, None of any other directory."""
    live, _, unique = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    return parse_partition_name(live) if name.endswith(FUTURE_SUFFIX) and unique else None


def parse_partition_name(name: str) -> PartitionKey | None:
    """Return (topic, partition) of a partition's directory; None of any other, and of one that is set aside.

    No topic has a blank in its name, as `copy of topic-0` has, nor a partition zeros before its number: with the first
    no checkpoint could be read any more, and the second is not where the partition's log is."""
    topic, _, number = name.rpartition("-")
    if LEGAL_NAME.fullmatch(topic) is None or not number.isdecimal() or name.endswith(SET_ASIDE_SUFFIXES):
        return None
    partition = int(number)
    return (topic, partition) if partition <= MAX_INT32 and number == str(partition) else None
