"""`odradek transactions list|hanging|abort`: transactions, and the end of those that hang (KIP-664)."""

from typing import Annotated

import typer

from odradek.cli.groups import named_partitions
from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, connect, new_app, topic_partition
from odradek.cli.output import heard_from, print_json, print_table

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
    """List transactions that are open for five minutes longer than is allowed, or that no coordinator knows."""
    with connect(bootstrap_server) as admin, heard_from("WARNING", "odradek.client.admin"):
        found = admin.find_hanging_transactions()
    if json:
        print_json(found)
    else:
        rows = [
            (
                one.transactional_id or None,
                one.state or "not known",
                one.producer_id,
                one.producer_epoch,
                one.age_ms // 1000,
                " ".join(map(str, one.topic_partitions)),
            )
            for one in found
        ]
        print_table(["transactional.id", "state", "producer", "epoch", "seconds", "partitions"], rows)


@transactions.command()
def abort(
    partition: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION")],
    producer_id: Annotated[int, typer.Option("--producer-id", min=0)],
    producer_epoch: Annotated[int, typer.Option("--producer-epoch", min=0)],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Abort a transaction that hangs in one partition. It must be open there."""
    from odradek.client.admin.values import AbortTransactionSpec
    from odradek.client.errors import ClientError

    where = topic_partition(partition)
    with connect(bootstrap_server) as admin:
        named_partitions(admin, [f"{where.topic}:{where.partition}"])  # raises if it does not exist
        opened = {
            (one.producer_id, one.producer_epoch): one
            for one in admin.describe_producers([where])[where]
            if one.current_transaction_start_offset >= 0
        }
        found = opened.get((producer_id, producer_epoch))
        if found is None:
            others = ", ".join(f"producer {id_}, epoch {epoch}" for id_, epoch in sorted(opened)) or "none"
            said = f"no transaction of producer {producer_id}, epoch {producer_epoch} is open in {where}"
            raise ClientError(f"{said}; open there: {others}")
        # A partition refuses a lower coordinator epoch than that of the producer's last transaction.
        epoch = max(found.coordinator_epoch, 0)
        admin.abort_transaction(AbortTransactionSpec(where, producer_id, producer_epoch, epoch))
    if json:
        print_json({"aborted": str(where), "producer_id": producer_id, "producer_epoch": producer_epoch})
    else:
        print(f"aborted the transaction of producer {producer_id} in {where}")
