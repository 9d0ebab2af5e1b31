"""`odradek transactions list|hanging|abort`: transactions, and the end of those that hang (KIP-664)."""

from typing import Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, connect, new_app, topic_partition
from odradek.cli.output import print_json, print_table

transactions = new_app("List transactions, find hanging ones, abort one.")


@transactions.command("list")
def list_(bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER, json: Json = False) -> None:
    """List all transactional ids with their states."""
    with connect(bootstrap_server) as admin:
        listed = [(coordinator, one) for coordinator, some in admin.list_transactions().items() for one in some]
    if json:
        print_json([{"coordinator": coordinator, **one._asdict()} for coordinator, one in listed])
    else:
        rows = [(one.transactional_id, one.state, one.producer_id, coordinator) for coordinator, one in listed]
        print_table(["transactional.id", "state", "producer", "coordinator"], rows)


@transactions.command()
def hanging(bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER, json: Json = False) -> None:
    """List transactions that are open for five minutes longer than any may be."""
    with connect(bootstrap_server) as admin:
        found = admin.find_hanging_transactions()
    if json:
        print_json(found)
    else:
        rows = [
            (
                one.transactional_id,
                one.producer_id,
                one.producer_epoch,
                one.age_ms // 1000,
                " ".join(map(str, one.topic_partitions)),
            )
            for one in found
        ]
        print_table(["transactional.id", "producer", "epoch", "seconds", "partitions"], rows)


@transactions.command()
def abort(
    partition: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION")],
    producer_id: Annotated[int, typer.Option("--producer-id", min=0)],
    producer_epoch: Annotated[int, typer.Option("--producer-epoch", min=0)],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Abort a hanging transaction in one partition."""
    from odradek.client.admin.values import AbortTransactionSpec

    where = topic_partition(partition)
    with connect(bootstrap_server) as admin:
        admin.abort_transaction(AbortTransactionSpec(where, producer_id, producer_epoch))
    if json:
        print_json({"aborted": str(where), "producer_id": producer_id, "producer_epoch": producer_epoch})
    else:
        print(f"aborted what producer {producer_id} had open in {where}")
