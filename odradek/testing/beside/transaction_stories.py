"""Stories of transactions: who may write under an id, what is in a transaction, and how it ends."""

from typing import Any

from odradek.protocol.records import encode_batch
from odradek.testing.beside.group_stories import committed, fetched
from odradek.testing.beside.steps import Answered, Known, Step, Story, story, wanted

ID = "~tx"
TOPIC = "~t"
TIME_MS = 1_700_000_000_000


class Batch:
    """Records of a producer: in a transaction unless it is said otherwise."""

    def __init__(
        self, actor: str, sequence: int, count: int = 1, epoch: int = 0, *, transactional: bool = True
    ) -> None:
        """`epoch`: what is added to the one that the actor was given."""
        self._actor, self._sequence, self._count = actor, sequence, count
        self._epoch, self._transactional = epoch, transactional

    def of(self, side: Answered) -> bytes:
        times, values = [TIME_MS] * self._count, [b"v"] * self._count
        return bytes(
            encode_batch(
                0,
                times,
                values,
                values,
                producer_id=side.facts.get((self._actor, "producer_id"), -1),
                producer_epoch=max(0, side.facts.get((self._actor, "producer_epoch"), 0) + self._epoch),
                base_sequence=self._sequence,
                transactional=self._transactional,
            )
        )


def identity(actor: str, epoch: int = 0) -> dict[str, Any]:
    return {
        "producer_id": Known(actor, "producer_id", otherwise=-1),
        "producer_epoch": Known(actor, "producer_epoch", epoch, otherwise=0),
    }


def init(actor: str, transactional_id: str | None = ID, timeout_ms: int = 60_000, **known: Any) -> Step:
    """`known`: the producer's id and epoch, where it has them (KIP-360)."""
    fields = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
    return Step(actor, "InitProducerId", fields | known)


def create(topic: str = TOPIC, partitions: int = 2) -> Step:
    one = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
    return Step("admin", "CreateTopics", {"topics": [one], "timeout_ms": 5000})


def transaction(actor: str, *partitions: int, topic: str = TOPIC, **fields: Any) -> dict[str, Any]:
    own = {"transactional_id": ID, "topics": [{"name": topic, "partitions": list(partitions)}]}
    return own | identity(actor) | fields


def add(actor: str, *partitions: int, topic: str = TOPIC, **fields: Any) -> Step:
    """AddPartitionsToTxn as clients send it."""
    given = {
        f"v3_and_below_{name}": one for name, one in transaction(actor, *partitions, topic=topic, **fields).items()
    }
    return Step(actor, "AddPartitionsToTxn", given, until=3)


def add_all(actor: str, *transactions: dict[str, Any]) -> Step:
    """AddPartitionsToTxn as brokers send it."""
    return Step(actor, "AddPartitionsToTxn", {"transactions": list(transactions)}, since=4)


def end(actor: str, *, committed: bool = True, epoch: int = 0, **fields: Any) -> Step:
    return Step(actor, "EndTxn", {"transactional_id": ID, "committed": committed} | identity(actor, epoch) | fields)


def produce(actor: str, batch: Any, partition: int = 0, transactional_id: str | None = ID, topic: str = TOPIC) -> Step:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
    fields = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 3000, "topic_data": data}
    return Step(actor, "Produce", fields, since=3)


def add_offsets(actor: str, group: str = "~g", **fields: Any) -> Step:
    return Step(actor, "AddOffsetsToTxn", {"transactional_id": ID, "group_id": group} | identity(actor) | fields)


def commit_offsets(actor: str, offset: int = 3, group: str = "~g", topic: str = TOPIC, **fields: Any) -> Step:
    given = {"transactional_id": ID, "group_id": group, "topics": [committed(topic, 0, offset)]}
    return Step(actor, "TxnOffsetCommit", given | identity(actor) | fields)


def describe(*ids: str) -> Step:
    return Step("admin", "DescribeTransactions", {"transactional_ids": list(ids or (ID,))})


def listing(states: tuple[str, ...] = (), duration_ms: int = -1, producers: tuple[Any, ...] = ()) -> Step:
    """List the transactions of one producer, so that the ids of other plays do not count."""
    given = {"state_filters": list(states), "producer_id_filters": list(producers), "duration_filter": duration_ms}
    return Step("admin", "ListTransactions", given)


def producers(*partitions: int, topic: str = TOPIC) -> Step:
    return Step("admin", "DescribeProducers", {"topics": [{"name": topic, "partition_indexes": list(partitions)}]})


def read(isolation: int = 1, partition: int = 0) -> Step:
    one = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fields = {"isolation_level": isolation, "session_epoch": -1, "topics": [{"topic": TOPIC, "partitions": [one]}]}
    return Step("reader", "Fetch", fields, since=4, until=12)


def latest(isolation: int = 1) -> Step:
    one = {"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    return Step("reader", "ListOffsets", {"replica_id": -1, "isolation_level": isolation, "topics": [one]}, since=2)


def markers(actor: str, *partitions: int, committed: bool = True, epoch: int = 0, coordinator: int = 0) -> Step:
    marker = {
        "transaction_result": committed,
        "topics": [{"name": TOPIC, "partition_indexes": list(partitions)}],
        "coordinator_epoch": coordinator,
    }
    return Step("coordinator", "WriteTxnMarkers", {"markers": [marker | identity(actor, epoch)]})


def begun(actor: str = "a") -> tuple[Step, ...]:
    """Return the steps to a transaction with a record in partition 0."""
    return create(), init(actor), add(actor, 0), produce(actor, Batch(actor, 0))


A = Known("a", "producer_id", otherwise=-1)

STORIES: tuple[Story, ...] = (
    story("nonsense in InitProducerId",
        init("a", ""), init("a", timeout_ms=0), init("a", timeout_ms=-1), init("a", timeout_ms=2_000_000_000),
        init("p", None, 0), init("p", None, -1), init("q", None, producer_id=5, producer_epoch=3),
        init("q", None, producer_id=5), init("q", None, producer_epoch=5), init("b", producer_id=5),
        init("b", producer_epoch=3), init("b", producer_id=77_777, producer_epoch=3), init("b", "x" * 300),
        init("b", "a b\n")),
    story("an epoch after the other",
        init("a"), init("a"), init("b"), init("a", **identity("a")), init("b", **identity("b")),
        init("b", **identity("b")), init("b", **identity("b", -1)), init("b", **identity("b", -1)),
        init("b", **identity("b", -2)), init("b", **identity("b", 1)), init("b", producer_id=A, producer_epoch=0),
        init("b", producer_id=77_777, producer_epoch=1), init("b", timeout_ms=30_000), describe()),
    story("a transaction",
        *begun(), describe(), listing(("Ongoing",), -1, (A,)), producers(0, 1), read(), read(0), latest(), latest(0),
        end("a"), end("a"), end("a", committed=False), describe(), read(), latest(), describe(), producers(0, 1),
        end("a"), add("a", 0, 1), produce("a", Batch("a", 1, 2)), produce("a", Batch("a", 0), 1),
        end("a", committed=False), end("a", committed=False), end("a"), describe(), read(), read(partition=1),
        describe(), producers(0, 1)),
    story("an end without a beginning",
        end("a"), init("a"), end("a"), end("a", committed=False), end("a", transactional_id="~other"),
        end("a", transactional_id=""), end("a", epoch=1), end("a", epoch=-1), end("a", producer_id=9),
        describe(ID, "~other", "", ID)),
    story("ends of other epochs",
        *begun(), end("a", epoch=1), end("a", epoch=-1), end("a", producer_id=9), init("b"), end("a"), init("b"),
        end("b"), describe(), add("b", 0), end("a"), end("b"), end("a")),
    story("a transaction that a second producer finds",
        *begun(), init("b"), init("b"), produce("a", Batch("a", 1)), add("a", 1), end("a"),
        init("a", **identity("a")), init("b", **identity("b")), read(), read(0), describe(), add("b", 0),
        produce("b", Batch("b", 0)), end("b"), describe(), read()),
    story("partitions that cannot be added",
        create(), init("a"), add("a", 9), add("a", 0, 9), add("a", 0, topic= "missing"),
        add("a", 0, topic="__consumer_offsets"), add("a", topic=TOPIC), add("a", 0, producer_id=9),
        add("a", 0, producer_epoch=9), add("a", 0, producer_epoch=-1), add("a", 0, transactional_id="~other"),
        add("a", 0, transactional_id=""), describe(), add("a", 0), add("a", 0), add("a", 1), describe(), end("a"),
        add_all("a", transaction("a", 0), transaction("a", 1, transactional_id="~other")),
        add_all("a", transaction("a", 0, verify_only=True)),
        wanted("each by itself", add_all("a", transaction("a", 1, 9, verify_only=True))),
        add_all("a", transaction("a", 0, verify_only=True, producer_epoch=9)),
        add_all("a", transaction("a", 0, verify_only=True, producer_id=9)),
        wanted("each by itself", add_all("a", transaction("a", 9, verify_only=True, producer_id=9))),
        wanted("older brokers", add_all("a", transaction("a", 0, topic="__consumer_offsets", verify_only=True))),
        add_all("a", transaction("a", 0, topic="__consumer_offsets")), add_all("a", transaction("a")), end("a"),
        wanted("older brokers", add_all("a", transaction("a", 0, verify_only=True)))),
    story("records outside of the transaction",
        create(), init("a"), produce("a", Batch("a", 0)), add("a", 1), produce("a", Batch("a", 0)),
        produce("a", Batch("a", 0), 1), wanted("newer epoch", produce("a", Batch("a", 1, epoch=1), 1)),
        produce("a", Batch("a", 1, epoch=-1), 1), produce("a", Batch("a", 1), 1, None),
        produce("a", Batch("a", 1), 1, "~other"), produce("a", Batch("a", 1, transactional=False), 1),
        produce("a", Batch("a", 2), 1, ""), end("a"), describe(), produce("a", Batch("a", 2), 1), producers(0, 1)),
    story("sequences",
        create(), init("p", None),
        *(produce("p", Batch("p", sequence, count, transactional=False), 0, None) for sequence, count in ((0, 2), (0,
            2), (2, 1), (5, 1), (1, 1), (0, 3), (3, 2), (0, 2), (5, 1), (6, 1), (7, 1), (8, 1), (0, 2), (2147483647,
            1))), produce("p", Batch("p", 9, epoch=1, transactional=False), 0, None),
        produce("p", Batch("p", 0, epoch=1, transactional=False), 0, None),
        produce("p", Batch("p", 9, transactional=False), 0, None), producers(0),
        produce("p", Batch("p", 7, transactional=False), 1, None), producers(0, 1, 9), producers(0, topic="missing")),
    story("sequences behind a refusal to verify",
        create(), init("a"), produce("a", Batch("a", 0)), produce("a", Batch("a", 0, transactional=False)),
        add("a", 0), produce("a", Batch("a", 3)), wanted("verified no more", produce("a", Batch("a", 1))), end("a")),
    story("a sequence that stays behind",
        create(), init("a"), produce("a", Batch("a", 0)),
        wanted("verified no more", produce("a", Batch("a", 5, transactional=False)))),
    story("offsets in a transaction",
        create(), init("a"), commit_offsets("a"), add_offsets("a"), commit_offsets("a"), fetched(),
        fetched(stable=True, since=7), describe(), commit_offsets("a", topic="missing"),
        commit_offsets("a", generation_id=3), commit_offsets("a", member_id="stranger"),
        commit_offsets("a", member_id="stranger", generation_id=3), commit_offsets("a", group_instance_id="i"),
        commit_offsets("a", producer_id=9), commit_offsets("a", transactional_id="~other"),
        commit_offsets("a", group="~h"), commit_offsets("a", group=""), add_offsets("a", ""),
        add_offsets("a", transactional_id="~other"), add_offsets("a", producer_epoch=9),
        add_offsets("a", producer_id=9), add_offsets("a", transactional_id=""), end("a"), describe(), fetched(),
        describe(), add_offsets("a"), commit_offsets("a", 9), end("a", committed=False), describe(), fetched(),
        fetched(stable=True, since=7)),
    story("offsets that do not wait",
        create(), init("a"), add_offsets("a"), commit_offsets("a"),
        Step("admin", "OffsetCommit", {"group_id": "~g", "topics": [committed(TOPIC, 0, 8)]}, since=1),
        fetched(TOPIC, stable=True, since=7), Step("admin", "DeleteGroups", {"groups_names": ["~g"]}),
        Step("admin", "OffsetDelete", {"group_id": "~g", "topics": [{"name": TOPIC, "partitions": [{"partition_index":
            0}]}]}), end("a"), describe(), fetched(TOPIC), fetched(TOPIC, stable=True, since=7)),
    story("markers from somewhere",
        *begun(), markers("a", 0, 1, 9), markers("a", 0), producers(0, 1), read(), markers("a", 0, epoch=-1),
        markers("a", 0, epoch=1), markers("a", 0, coordinator=-1), markers("a", 0, coordinator=5), markers("a", 0),
        markers("a", 0, committed=False, coordinator=5), producers(0),
        Step("coordinator", "WriteTxnMarkers", {"markers": []}), read(0), end("a"), describe()),
    story("lists of transactions",
        create(), init("a"), listing(producers=(A,)), wanted("not begun", listing((), 0, (A,))),
        wanted("not begun", listing((), 600_000, (A,))), wanted("not begun", listing(("Empty",), 0, (A,))),
        add("a", 0), listing(producers=(A,)), listing((), 600_000, (A,)), listing(("Ongoing",), 0, (A,)), end("a"),
        listing(("Empty", "nonsense", ""), -1, (A,)), listing(("ongoing",), -1, (A,)), listing((), 600_000, (A,)),
        listing((), -2, (A,)), init("a"), listing((), 600_000, (A,)), wanted("not begun", listing((), 0, (A,))),
        describe(ID, "~none"), listing((), -1, (-1, 77_777))),
    story("a transaction that takes too long",
        create(), init("a", timeout_ms=1), add("a", 0), describe()),
)  # fmt: skip
