"""`odradek produce TOPIC`: lines of standard input become records."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    Acks,
    BootstrapServer,
    Json,
    Properties,
    chosen,
    one_of,
    settings,
)
from odradek.cli.output import heard_from, note, print_json

if TYPE_CHECKING:
    from odradek.client.producer.client import KafkaProducer
    from odradek.client.records import RecordMetadata


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Tally:
    """Counter of the records that were sent; keeps the first failure."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failure: Exception | None = None

    def count(self, metadata: "RecordMetadata | None", error: Exception | None) -> None:
        """Count a record: the callback of its delivery."""
        if error is None:
            self.delivered += 1
        elif self.failure is None:
            self.failure = error


def produce(
    topic: str,
    key_separator: Annotated[
        str, typer.Option(help="lines are KEY SEPARATOR VALUE; without it records have no key")
    ] = "",
    partition: Annotated[int | None, typer.Option(min=0, help="partition of all records, instead of the key's")] = None,
    acks: Acks = None,
    compression: Annotated[
        str | None,
        typer.Option(
            callback=one_of(*CODECS), help=f"{CODECS[0]} (the default), {', '.join(CODECS[1:-1])} or {CODECS[-1]}"
        ),
    ] = None,
    property: Properties = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Send the lines of standard input as records, and wait until all are acknowledged."""
    from odradek.client.producer.client import KafkaProducer

    own = chosen(acks=acks, compression_type=compression)
    config = {"max.block.ms": "15000", **settings(property), **own}
    tally = Tally()
    interrupted = False
    unreachable = heard_from("WARNING", "odradek.client.cluster")  # told at once: records wait for such a leader
    with unreachable, KafkaProducer(config, bootstrap_servers=bootstrap_server) as producer:
        try:
            _send_lines(producer, topic, partition, os.fsencode(key_separator), tally)
        except KeyboardInterrupt:
            interrupted = True
        producer.flush()
    if tally.failure is not None:
        raise tally.failure
    if json:
        print_json({"topic": topic, "sent": tally.delivered})
    else:
        note(f"sent {tally.delivered} record(s) to {topic}")
    if interrupted:  # the line being sent then may be missing
        raise typer.Exit(130)


def _lines() -> Iterator[bytes]:
    """Read the lines of standard input, until it ends or Ctrl-C ends it."""
    with contextlib.suppress(KeyboardInterrupt):
        yield from sys.stdin.buffer


def _send_lines(producer: "KafkaProducer", topic: str, partition: int | None, separator: bytes, tally: Tally) -> None:
    for line in _lines():
        text = line.rstrip(b"\r\n")
        key: bytes | None = None
        if separator and separator in text:
            key, _, text = text.partition(separator)
        producer.send(topic, text, key, partition=partition, callback=tally.count)
        if tally.failure is not None:
            return
