"""`odradek consume TOPIC`: prints records."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterable
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, NO_NEW_TOPIC, BootstrapServer, Json, Properties, settings
from odradek.cli.output import heard_from, note, plain

if TYPE_CHECKING:
    from odradek.client.consumer.client import KafkaConsumer
    from odradek.client.records import ConsumerRecord

POLL_MS = 500


def consume(
    topic: str,
    group: Annotated[str | None, typer.Option(help="consumer group to read with; its offsets are committed")] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="start at the first record, unless the group has an offset")
    ] = False,
    max_messages: Annotated[int | None, typer.Option(min=0, help="stop after this many records")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="read only this partition")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="start at this offset; needs --partition")] = None,
    timeout_ms: Annotated[int | None, typer.Option(min=0, help="stop when no record comes for this long")] = None,
    key_separator: Annotated[str | None, typer.Option(help="print KEY SEPARATOR VALUE")] = None,
    property: Properties = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Print the values of a topic's records, one per line. Ctrl-C stops cleanly and commits the group's offsets."""
    from odradek.client.consumer.client import KafkaConsumer

    if offset is not None and partition is None:
        raise typer.BadParameter("needs --partition", param_hint="--offset")
    if group == "":
        raise typer.BadParameter("it is empty", param_hint="--group")
    if group is not None and partition is not None:
        raise typer.BadParameter("not together with --group, which assigns partitions itself", param_hint="--partition")
    config = {"auto.offset.reset": "earliest" if from_beginning else "latest", **NO_NEW_TOPIC, **settings(property)}
    if partition is None:
        group = group or config.get("group.id")
    signal.signal(signal.SIGTERM, _interrupt)
    printer = Printer(max_messages, key_separator, as_json=json)
    opened = KafkaConsumer(config, bootstrap_servers=bootstrap_server, group_id=group)
    # A group that lets nobody in, or a leader that cannot be reached, is no error, as that may end at any moment. But
    # whoever looks at the empty terminal should know.
    refused = heard_from("WARNING", "odradek.client.consumer.group_driver")
    unreachable = heard_from("WARNING", "odradek.client.cluster")
    with refused, unreachable, contextlib.suppress(KeyboardInterrupt), opened as consumer:
        known = _known_partitions(consumer, topic, partition)
        if group is not None:
            consumer.subscribe([topic])
        else:
            _assign(consumer, topic, known if partition is None else [partition], offset)
        _end_on_signals(consumer, printer)
        _print_all(consumer, printer, timeout_ms)
    note(f"{printer.printed} record(s)")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end_on_signals(consumer: "KafkaConsumer", printer: "Printer") -> None:
    """Let SIGINT and SIGTERM end the printing once all records of the last poll are printed, as closing commits these.

    A second signal interrupts at once, and nothing is committed.
    """

    def end(number: int, frame: FrameType | None) -> None:
        if printer.ended:
            raise KeyboardInterrupt
        printer.ended = True
        consumer.wakeup()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


def _known_partitions(consumer: "KafkaConsumer", topic: str, partition: int | None) -> list[int]:
    """Return the topic's partition numbers, sorted. Raises KafkaError if the topic, or `partition`, does not exist."""
    from odradek.protocol.errors import ErrorCode, KafkaError

    known = sorted(consumer.partitions_for_topic(topic) or ())
    if not known:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the cluster has no topic {topic}")
    if partition is not None and partition not in known:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"partition {partition} of topic {topic}: its partitions are 0-{max(known)}",
        )
    return known


def _assign(consumer: "KafkaConsumer", topic: str, partitions: list[int], offset: int | None) -> None:
    from odradek.client.records import TopicPartition

    chosen = [TopicPartition(topic, number) for number in partitions]
    consumer.assign(chosen)
    if offset is not None:
        consumer.seek(chosen[0], offset)


class Printer:
    """Writes records to standard output, at most `limit`."""

    def __init__(self, limit: int | None, key_separator: str | None, *, as_json: bool) -> None:
        self.printed = 0
        self.ended = False
        """True when the printing is to end."""
        self._limit = limit
        self._separator = None if key_separator is None else os.fsencode(key_separator)
        self._as_json = as_json

    @property
    def left(self) -> int | None:
        """Number of records that may still be printed; None without a limit."""
        return None if self._limit is None else self._limit - self.printed

    def print(self, records: Iterable["ConsumerRecord"]) -> None:
        """Print each record on one line."""
        for record in records:
            sys.stdout.buffer.write(self._line(record) + b"\n")
            self.printed += 1

    def _line(self, record: "ConsumerRecord") -> bytes:
        if self._as_json:
            return _json_line(record)
        value: bytes = record.value if record.value is not None else b"null"
        if self._separator is None:
            return value
        key: bytes = record.key if record.key is not None else b"null"
        return key + self._separator + value


def _json_line(record: "ConsumerRecord") -> bytes:
    import json

    content = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": plain(record.key),
        "value": plain(record.value),
        "headers": [[name, plain(value)] for name, value in record.headers],
    }
    return json.dumps(content, ensure_ascii=False).encode()


def _print_all(consumer: "KafkaConsumer", printer: Printer, timeout_ms: int | None) -> None:
    import time

    last = time.monotonic()
    while not printer.ended and (printer.left is None or printer.left > 0):
        most = printer.left if printer.left is None else min(printer.left, consumer.config.max_poll_records)
        found = consumer.poll(POLL_MS, most)
        for records in found.values():
            printer.print(records)
        if found:
            sys.stdout.buffer.flush()
            last = time.monotonic()
        elif timeout_ms is not None and (time.monotonic() - last) * 1000 >= timeout_ms:
            return
