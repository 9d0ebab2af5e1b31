"""`odradek mock`: a cluster in this process for tests in any language, with faults over HTTP."""

import json
import signal
import threading
from typing import Annotated

import typer

from odradek.cli.options import settings


def mock(
    brokers: Annotated[int, typer.Option(min=1, help="number of brokers")] = 3,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="port of broker 0, the others use the next ones; 0 takes free ones")
    ] = 0,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME[:PARTITIONS]", help="create a topic at the start")
    ] = None,
    override: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="a setting for all brokers")] = None,
    faults_api: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="accept faults over HTTP on this port of 127.0.0.1; 0 takes a free one",
        ),
    ] = None,
) -> None:
    """Run a cluster in memory for tests, and print its addresses as one line of JSON. Ctrl-C stops it."""
    from odradek.broker.config import ConfigError
    from odradek.testing.cluster.blocking import Cluster
    from odradek.testing.cluster.http_api import FaultsApi
    from odradek.testing.cluster.options import ClusterError

    overrides = settings(override, "--override")
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    try:
        with Cluster(brokers, topics=_topics(topic or []), settings=overrides, port=port) as cluster:
            said = {"bootstrap": cluster.bootstrap}
            if faults_api is None:
                print(json.dumps(said), flush=True)
                over.wait()
                return
            with FaultsApi(cluster, faults_api) as api:
                print(json.dumps({**said, "faults": api.url}), flush=True)
                over.wait()
    except ClusterError as error:
        if isinstance(error.__cause__, ConfigError):
            raise typer.BadParameter(str(error).removeprefix("settings: "), param_hint="--override") from None
        raise OSError(str(error)) from error  # one line, and exit code 1


def _topics(wanted: list[str]) -> dict[str, int]:
    found = {}
    for text in wanted:
        name, _, partitions = text.partition(":")
        if partitions and not partitions.isdecimal():
            raise typer.BadParameter(f"{text!r} is not NAME or NAME:PARTITIONS", param_hint="--topic")
        found[name] = int(partitions or 1)
    return found
