"""What each entry of the journal says: every row of the table, by entries as brokers note them."""

from typing import Any

import pytest

from odradek.journal.sentences import TABLE, event_in_words, rule_in_words, tell


def state(leader: int, isr: list[int], epoch: int) -> dict[str, Any]:
    return {"leader": leader, "isr": isr, "leader_epoch": epoch, "partition_epoch": 7, "controller_epoch": 1}


def change(before: dict[str, Any] | None, after: dict[str, Any], rule: str = "OfflinePartition") -> dict[str, Any]:
    return {"kind": "partition", "subject": "t-0", "rule": rule, "before": before, "after": after}


THREE = state(1, [1, 0, 2], 3)
BROKER: dict[str, Any] = {"kind": "broker", "subject": "1"}
SESSION: dict[str, Any] = {"kind": "session", "subject": "1", "session": 255}
GROUP: dict[str, Any] = {"kind": "group", "subject": "billing", "member": "m-1", "client": "c"}
TOLD: dict[str, tuple[dict[str, Any], str]] = {
    "broker came": (
        BROKER | {"change": "came", "epoch": 5},
        "broker 1 is registered in ZooKeeper, broker epoch 5",
    ),
    "broker went": (
        BROKER | {"change": "went", "former_epoch": 5},
        "broker 1 is not registered any more, its broker epoch was 5: its ZooKeeper session has ended",
    ),
    "broker bounced": (
        BROKER | {"change": "bounced", "epoch": 6, "former_epoch": 5},
        "broker 1 bounced, broker epoch 5 → 6: it registered again before the controller saw it gone",
    ),
    "broker updated": (BROKER | {"change": "updated"}, "broker 1 has registered with other addresses"),
    "broker shutting down": (
        BROKER | {"change": "shutting down", "epoch": 6, "led": 4, "still_led": 1},
        "broker 1 is shutting down and hands its partitions over, broker epoch 6: "
        "it led 4; of these nobody else can lead 1",
    ),
    "controller elected": (
        {"kind": "controller", "subject": "2", "change": "elected", "epoch": 4},
        "broker 2 is the controller, epoch 4: /controller was free, and it was the first to take it",
    ),
    "controller epoch_raised": (
        {"kind": "controller", "subject": "2", "change": "epoch_raised", "former_epoch": 1, "epoch": 2},
        "/controller_epoch went back to 1, and is 2 now: "
        "a later one has been obeyed: the znode was deleted, or is of an older ZooKeeper",
    ),
    "controller resigned": (
        {"kind": "controller", "subject": "2", "change": "resigned", "epoch": 2, "reason": "it failed"},
        "broker 2 is not the controller any more: it failed",
    ),
    "session registered": (
        SESSION | {"change": "registered", "epoch": 4},
        "broker 1 has registered itself in ZooKeeper, session 0xff, epoch 4",
    ),
    "session away": (
        SESSION | {"change": "away"},
        "broker 1 does not reach ZooKeeper, session 0xff: it goes on with what it knows until its session ends",
    ),
    "session expired": (
        SESSION | {"change": "expired", "led": 3},
        "broker 1 has lost its ZooKeeper session, session 0xff: it led 3 partitions and leads none now",
    ),
    "session deleted": (
        SESSION | {"change": "deleted", "led": 3},
        "somebody has deleted the registration of broker 1, session 0xff: it led 3 partitions and leads none until it "
        "has registered again",
    ),
    "session back": (
        SESSION | {"change": "back"},
        "broker 1 reaches ZooKeeper again, session 0xff: in the same session: nothing is lost",
    ),
    "failure": (
        {"kind": "failure", "subject": "t-0", "rule": "OfflinePartition", "reason": "no replica lives"},
        "t-0 stays as it was: no replica lives (OfflinePartition)",
    ),
    "isr": (
        {
            "kind": "isr", "subject": "t-0", "rule": "replica.lag.time.max.ms", "limit_ms": 30_000, "leader_epoch": 3,
            "lagging": [{"broker": 2, "records_behind": 17}, {"broker": 0, "records_behind": None}],
        },
        "t-0: brokers 2 (17 records behind), 0 have not kept up for 30000 ms, leader epoch 3: "
        "replica.lag.time.max.ms is over",
    ),
    "truncation": (
        {
            "kind": "truncation", "subject": "t-0", "leader": 2, "leader_epoch": 4, "log_end_offset": 9, "to": 5,
            "below_high_watermark": 3,
        },
        "t-0 is truncated from 9 to 5 to follow broker 2, leader epoch 4: 3 of the records lost were acknowledged",
    ),
    "directory failed": (
        {"kind": "directory", "subject": "/data", "change": "failed", "reason": "[Errno 5] I/O", "partitions": []},
        "log directory /data has failed: [Errno 5] I/O",
    ),
    "fetcher unreachable": (
        {"kind": "fetcher", "subject": "2", "change": "unreachable", "reason": "refused"},
        "a follower cannot reach broker 2: refused",
    ),
    "group rebalancing": (
        GROUP | {"change": "rebalancing", "reason": "member m-1 left", "generation": 3},
        "group billing rebalances, generation 3: member m-1 left",
    ),
    "group generation": (
        GROUP | {"change": "generation", "generation": 4, "members": 1},
        "group billing has generation 4, 1 member(s)",
    ),
    "group stable": (
        GROUP | {"change": "stable", "generation": 4, "members": 1},
        "group billing is stable, generation 4, 1 member(s)",
    ),
    "group member joined": (
        GROUP | {"change": "member joined", "host": "/127.0.0.1"},
        "m-1 joined group billing, c on /127.0.0.1",
    ),
    "group member left": (GROUP | {"change": "member left", "reason": ""}, "m-1 left group billing, c"),
    "group member expired": (
        GROUP | {"change": "member expired", "session_timeout_ms": 45_000},
        "m-1 was removed from group billing, c: no heartbeat for 45000 ms",
    ),
    "group member did not rejoin": (
        GROUP | {"change": "member did not rejoin", "rebalance_timeout_ms": 300_000},
        "m-1 was removed from group billing, c: it did not rejoin in 300000 ms",
    ),
    "new": (
        change(None, state(1, [1, 0], 0), "NewPartition"),
        "t-0 leader none → 1, ISR {0,1}, leader epoch 0, partition epoch 7, controller epoch 1: "
        "a new partition is led by its first live replica (NewPartition)",
    ),
    "without leader": (
        change(state(1, [1], 3), state(-1, [1], 4), "OfflineReplica 1"),
        "t-0 leader 1 → none, ISR {1}, leader epoch 3 → 4, partition epoch 7, controller epoch 1: "
        "broker 1 is offline (OfflineReplica)",
    ),
    "moved": (
        change(state(1, [1], 3), state(2, [2], 4)) | {"unclean": True},
        "t-0 leader 1 → 2, ISR {1} → {2}, leader epoch 3 → 4, partition epoch 7, controller epoch 1: "
        "UNCLEAN, records may be lost: "
        "no replica of the ISR is up, so the first live replica outside it leads (OfflinePartition)",
    ),
    "led anew": (
        change(THREE, state(1, [0, 1, 2], 4), "ReassignPartition"),
        "t-0 leader 1, ISR {0,1,2}, leader epoch 3 → 4, partition epoch 7, controller epoch 1: "
        "its replicas are being reassigned (ReassignPartition)",
    ),
    "grown": (
        change(state(1, [1], 3), THREE, "AlterPartition"),
        "t-0 leader 1, ISR {1} → {0,1,2}, leader epoch 3, partition epoch 7, controller epoch 1: "
        "the leader saw a follower catch up (AlterPartition)",
    ),
    "shrunk": (
        change(THREE, state(1, [1], 3), "AlterPartition"),
        "t-0 leader 1, ISR {0,1,2} → {1}, leader epoch 3, partition epoch 7, controller epoch 1: "
        "the leader saw a follower fall behind for replica.lag.time.max.ms (AlterPartition)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", TABLE)
def test_every_row_of_the_table(row: str) -> None:
    entry, said = TOLD[row]
    told = tell(entry)
    assert str(told) == said and told is not None and told.kind == TABLE[row].kind


@pytest.mark.parametrize(
    "entry",
    [{}, {"kind": "partition"}, change(3, 4), BROKER | {"change": "came"}, {"kind": "write"}],  # type: ignore[arg-type]
)
def test_entries_of_another_shape_say_nothing(entry: dict[str, Any]) -> None:
    assert tell(entry) is None


def test_rules_and_events_that_are_not_known_are_said_by_their_names() -> None:
    assert rule_in_words("SomethingNew") == "SomethingNew"
    assert event_in_words("ElectLeaders") == "ElectLeaders was asked for"
