"""What a transactional producer may do in which state, and where that leads. The broker is not asked."""

import pytest

from odradek.client.errors import AbortRequired, ClientError
from odradek.client.producer.transaction import Call, State, Transaction
from odradek.client.producer.transaction_requests import Verdict, failure, verdict
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
FAILURE = KafkaError(ErrorCode.INVALID_RECORD, "t-0")


def in_state(state: State) -> Transaction:
    """The shortest way there."""
    transaction = Transaction("id")
    if state is State.FATAL_ERROR:
        transaction.fail_for_good(FAILURE)
    if state in (State.UNINITIALISED, State.FATAL_ERROR):
        return transaction
    transaction.start(Call.INIT)
    if state is State.INITIALISING:
        return transaction
    transaction.ready()
    if state is State.READY:
        return transaction
    transaction.start(Call.BEGIN)
    if state is State.COMMITTING:
        transaction.start(Call.COMMIT)
    if state is State.ABORTING:
        transaction.start(Call.ABORT)
    if state is State.ABORTABLE_ERROR:
        transaction.fail(FAILURE)
    return transaction


LEADS_TO = {
    (State.UNINITIALISED, Call.INIT): State.INITIALISING,
    (State.READY, Call.BEGIN): State.IN_TRANSACTION,
    (State.IN_TRANSACTION, Call.SEND): State.IN_TRANSACTION,
    (State.IN_TRANSACTION, Call.SEND_OFFSETS): State.IN_TRANSACTION,
    (State.IN_TRANSACTION, Call.COMMIT): State.COMMITTING,
    (State.IN_TRANSACTION, Call.ABORT): State.ABORTING,
    (State.ABORTABLE_ERROR, Call.ABORT): State.ABORTING,
}
"""All that is allowed (KIP-98)."""
RAISED = {State.FATAL_ERROR: KafkaError, State.ABORTABLE_ERROR: AbortRequired}


@pytest.mark.parametrize("call", Call)
@pytest.mark.parametrize("state", State)
def test_each_call_in_each_state(state: State, call: Call) -> None:
    transaction = in_state(state)
    assert transaction.state is state
    if (state, call) in LEADS_TO:
        transaction.start(call)
        assert transaction.state is LEADS_TO[state, call]
        return
    with pytest.raises(RAISED.get(state, ClientError)) as refused:
        transaction.start(call)
    assert transaction.state is state, "a refusal changes nothing"
    if state is not State.FATAL_ERROR:
        assert str(refused.value).startswith("transactional.id id: ")
    if state is State.ABORTABLE_ERROR:
        assert "call abort_transaction()" in str(refused.value)


@pytest.mark.parametrize("state", State)
def test_a_failure_counts_while_the_transaction_is_written(state: State) -> None:
    transaction = in_state(state)
    transaction.fail(FAILURE)
    failed = state in (State.IN_TRANSACTION, State.COMMITTING, State.ABORTABLE_ERROR)
    assert (transaction.state is State.ABORTABLE_ERROR) == failed
    if not failed:
        assert transaction.state is state


@pytest.mark.parametrize("state", State)
def test_a_fatal_failure_counts_always_and_the_first_is_kept(state: State) -> None:
    transaction = in_state(state)
    transaction.fail_for_good(FAILURE)
    transaction.fail_for_good(KafkaError(ErrorCode.PRODUCER_FENCED))
    assert transaction.state is State.FATAL_ERROR and transaction.error is FAILURE
    for call in Call:
        with pytest.raises(KafkaError) as raised:
            transaction.start(call)
        assert raised.value is FAILURE


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (State.READY, Transaction.ready),
        (State.UNINITIALISED, Transaction.ready),
        (State.IN_TRANSACTION, Transaction.ready),
        (State.ABORTABLE_ERROR, Transaction.ready),
        (State.FATAL_ERROR, Transaction.ready),
        (State.IN_TRANSACTION, Transaction.raise_epoch),
        (State.COMMITTING, Transaction.raise_epoch),
        (State.READY, Transaction.raise_epoch),
    ],
)
def test_a_transition_that_is_none_is_a_mistake_of_ours(state: State, step: object) -> None:
    with pytest.raises(AssertionError):
        step(in_state(state))  # type: ignore[operator]


def test_partitions_are_named_once_and_forgotten_at_the_end() -> None:
    transaction = in_state(State.IN_TRANSACTION)
    transaction.add(T0)
    transaction.add(T0)
    assert transaction.unnamed == {T0} and not transaction.partitions
    transaction.asking()
    transaction.named([T0])
    transaction.add(T0)
    transaction.add(T1)
    assert transaction.unnamed == {T1} and transaction.partitions == {T0}
    transaction.start(Call.ABORT)
    transaction.raise_epoch()
    transaction.ready()
    assert not (transaction.unnamed or transaction.partitions or transaction.asked or transaction.confirmed)


def test_a_record_outside_of_a_transaction_goes_nowhere() -> None:
    transaction = in_state(State.READY)
    with pytest.raises(ClientError, match=r"no send\(\) now: call begin_transaction\(\) first"):
        transaction.add(T0)
    assert not transaction.unnamed


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.NOT_COORDINATOR, Verdict.AGAIN),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.AGAIN),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Verdict.AGAIN),
        (ErrorCode.NETWORK_EXCEPTION, Verdict.AGAIN),
        (ErrorCode.PRODUCER_FENCED, Verdict.CLOSE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.CLOSE),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Verdict.CLOSE),
        (ErrorCode.INVALID_TXN_STATE, Verdict.CLOSE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.ABORT),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Verdict.ABORT),
        (ErrorCode.ILLEGAL_GENERATION, Verdict.ABORT),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Verdict.ABORT),
        (ErrorCode.TRANSACTION_ABORTABLE, Verdict.ABORT),
    ],
)
def test_what_an_error_means(error: ErrorCode, expected: Verdict) -> None:
    assert verdict(error) is expected


def test_older_coordinators_say_fenced_in_another_way() -> None:
    told = failure("id", ErrorCode.INVALID_PRODUCER_EPOCH, "commit")
    assert isinstance(told, KafkaError) and told.code == ErrorCode.PRODUCER_FENCED
