"""The fetcher's side of a fetch session: what it says next after each thing that may have happened (KIP-227)."""

from typing import NamedTuple

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.fetch_session import EPOCH_MAX, INITIAL_EPOCH, NAMES_KEPT, NO_SESSION, FetchSessionHandler
from odradek.protocol.messages.fetch import ForgottenTopic
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.topic_names import PartitionKey

A, B, ANEW = b"a" * 16, b"b" * 16, b"n" * 16
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
ID = 77


class Place(NamedTuple):
    offset: int
    topic_id: bytes = A


Session = FetchSessionHandler[PartitionKey, Place]


def step(session: Session, wanted: dict[PartitionKey, Place], answer: int = ID) -> tuple[int, int, object, object]:
    """Fetch once: id, epoch, what was named, what was forgotten."""
    changes = session.changes_to(wanted)
    session.tell(changes)
    said = (session.id, session.epoch, changes.named, [key for key, _ in changes.forgotten])
    session.answered(answer)
    return said


def begun(**wanted: int) -> Session:
    session = Session()
    step(session, {(name, 0): Place(offset, name.encode() * 16) for name, offset in wanted.items()})
    return session


def test_after_the_first_only_changes_are_said() -> None:
    session = Session()
    both = {A0: Place(1), A1: Place(2)}
    assert step(session, both) == (NO_SESSION, INITIAL_EPOCH, both, [])
    assert step(session, both) == (ID, 1, {}, [])
    assert step(session, {A0: Place(5), A1: Place(2)}) == (ID, 2, {A0: Place(5)}, [])
    assert step(session, {A1: Place(2), B0: Place(0, B)}) == (ID, 3, {B0: Place(0, B)}, [A0])
    assert step(session, {A0: Place(5), B0: Place(0, B)}) == (ID, 4, {A0: Place(5)}, [A1])
    assert session.known == {A0: Place(5), B0: Place(0, B)}
    assert session.names == {A: "a", B: "b"}


def test_some_are_looked_at_and_the_others_stay() -> None:
    session = begun(a=1, b=2)
    changes = session.changes([(A0, Place(1)), (B0, None), (A1, None)])
    assert (changes.named, changes.forgotten) == ({}, [(B0, Place(2, B))])
    session.tell(changes)
    assert session.known == {A0: Place(1)}


def test_a_broker_that_gives_no_session_is_told_everything_each_time() -> None:
    session = Session()
    for _ in range(2):
        assert step(session, {A0: Place(1)}, NO_SESSION) == (NO_SESSION, INITIAL_EPOCH, {A0: Place(1)}, [])


def test_a_session_that_the_broker_ends_in_an_answer_begins_anew() -> None:
    session = begun(a=1)
    assert step(session, {A0: Place(2)}, NO_SESSION) == (ID, 1, {A0: Place(2)}, [])
    assert step(session, {A0: Place(2)}) == (NO_SESSION, INITIAL_EPOCH, {A0: Place(2)}, [])


def test_a_session_with_another_id_is_at_its_first_step() -> None:
    session = begun(a=1)
    step(session, {A0: Place(2)}, ID + 1)
    assert (session.id, session.epoch) == (ID + 1, 1)


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ID),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ID),
        (ErrorCode.INCONSISTENT_TOPIC_ID, ID),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ID),
    ],
)
def test_after_a_refusal_everything_is_said_and_an_old_session_is_named_to_be_ended(
    error: ErrorCode, session_id: int
) -> None:
    session = begun(a=1)
    session.refused(error)
    assert step(session, {A0: Place(1)}, ID + 1) == (session_id, INITIAL_EPOCH, {A0: Place(1)}, [])
    assert step(session, {A0: Place(1)}, ID + 1) == (ID + 1, 1, {}, [])


def test_a_lost_answer_begins_anew() -> None:
    session = begun(a=1, b=2)
    session.tell(session.changes_to({A0: Place(3)}))
    session.begin_anew()
    assert session.begins
    assert step(session, {A0: Place(3)}, ID + 1) == (ID, INITIAL_EPOCH, {A0: Place(3)}, [])


def test_epochs_go_round_to_one() -> None:
    session = begun(a=1)
    session.epoch = EPOCH_MAX
    assert step(session, {A0: Place(1)})[1] == EPOCH_MAX
    assert step(session, {A0: Place(1)})[1] == 1


def test_a_topic_that_another_has_taken_the_name_of_is_named_and_forgotten() -> None:
    session = begun(a=1, b=0)
    changes = session.changes_to({A0: Place(0, ANEW), B0: Place(0, B)})
    assert changes.named == {A0: Place(0, ANEW)}
    assert changes.forgotten_topics() == [ForgottenTopic(topic="a", topic_id=A, partitions=[0])]
    session.tell(changes)
    assert session.known[A0] == Place(0, ANEW) and session.names[ANEW] == "a"


def test_by_name_a_topic_made_anew_is_only_named() -> None:
    """The broker takes what is forgotten out after it has put in what is named."""
    session = Session()
    session.identify(by_topic_id=False)
    step(session, {A0: Place(1)})
    assert step(session, {A0: Place(0, ANEW)}) == (ID, 1, {A0: Place(0, ANEW)}, [])


def test_a_session_goes_by_ids_or_by_names() -> None:
    session = begun(a=1)
    session.identify(by_topic_id=True)
    assert not session.begins
    session.identify(by_topic_id=False)
    assert step(session, {A0: Place(1, ZERO_UUID)})[:2] == (ID, INITIAL_EPOCH)


def test_what_is_forgotten_is_said_by_topic() -> None:
    session = Session()
    step(session, {A0: Place(1), B0: Place(1, B), A1: Place(1)})
    said = session.changes_to({}).forgotten_topics()
    assert [(one.topic, one.partitions) for one in said] == [("a", [0, 1]), ("b", [0])]


def test_names_of_topics_that_are_gone_do_not_gather() -> None:
    session = Session()
    for number in range(10 * NAMES_KEPT):
        step(session, {A0: Place(0, number.to_bytes(16, "big"))})
    assert len(session.names) <= NAMES_KEPT + 1
