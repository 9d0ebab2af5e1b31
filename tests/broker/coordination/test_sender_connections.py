"""What comes by a connection that its sender may have given up is late once, and no sender is kept from being heard."""

from odradek.broker.coordination.sender_connections import EARLIER_CONNECTIONS_MAX, SENDERS_MAX, SenderConnections


def test_what_comes_by_an_earlier_connection_is_late_once() -> None:
    senders = SenderConnections()
    assert [senders.is_late("a", connection) for connection in (5, 5, 7, 5, 5, 7, 6, 5, 6, 9, 7)] == [
        False, False, False, True, False, False, True, False, False, False, True,
    ]  # fmt: skip


def test_senders_are_told_apart() -> None:
    senders = SenderConnections()
    assert [senders.is_late(*one) for one in (("a", 5), ("b", 3), ("a", 4), ("b", 3))] == [False, False, True, False]


def test_whoever_has_too_many_connections_is_heard_by_the_rest() -> None:
    senders = SenderConnections()
    senders.is_late("a", 1_000)
    late = [senders.is_late("a", connection) for connection in range(EARLIER_CONNECTIONS_MAX + 1)]
    assert late == [True] * EARLIER_CONNECTIONS_MAX + [False]


def test_no_more_than_so_many_senders_are_remembered() -> None:
    senders = SenderConnections()
    for number in range(SENDERS_MAX):
        senders.is_late(f"{number}", 5)
    assert senders.is_late("0", 4), "it was heard of last, and stays"
    senders.is_late("another", 5)
    assert not senders.is_late("1", 4)
