"""What a transactional producer does, on virtual time: commits, aborts, epochs, calls that take too long."""

import asyncio
from typing import Any

import pytest

from odradek.client.errors import AbortRequired, ClientError, ClientTimeout, TransactionAborted
from odradek.client.records import TopicPartition
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
)
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import (
    ProduceRequest,
)
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
)
from odradek.testing.transaction_bench import GROUP, OFFSETS, SECOND, T0, T1, Bench, run


def test_commits_and_aborts_follow_each_other(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        for number in range(4):
            bench.driver.begin()
            bench.send(b"%d" % number, T0)
            bench.send(b"%d" % number, T1)
            await bench.until_told(2 * number + 2)
            await (bench.driver.abort if number % 2 else bench.driver.commit)(SECOND)

    bench = run(scripted_broker, work)
    assert bench.model.committed == {0: [b"0", b"2"], 1: [b"0", b"2"]}
    assert bench.heard == [None] * 8
    assert bench.epoch == 0, "nothing was lost: no other epoch is needed"


def test_an_empty_transaction_is_none_of_the_coordinators_business(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.driver.begin()
        await bench.driver.commit(SECOND)
        bench.driver.begin()
        await bench.driver.abort(SECOND)

    bench = run(scripted_broker, work)
    assert bench.count(EndTxnRequest) == bench.count(AddPartitionsToTxnRequest) == 0


def test_a_lingering_batch_is_flushed_by_the_commit(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        await bench.one(b"x")
        assert bench.clock.monotonic_ms() < 1_000

    bench = run(scripted_broker, work, linger_ms=5_000)
    assert bench.model.committed[0] == [b"x"]


def test_batches_wait_until_their_partition_is_named(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[AddPartitionsToTxnRequest] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 5
        bench.driver.begin()
        bench.send(b"x")
        await asyncio.sleep(0.03)
        assert bench.count(AddPartitionsToTxnRequest) and not bench.count(ProduceRequest)
        await bench.until_told(1)
        bench.send(b"y")
        await bench.until_told(2)
        assert bench.count(AddPartitionsToTxnRequest) == 6, "once it is named, it is"

    run(scripted_broker, work)


def test_a_failed_record_fails_the_transaction_and_the_next_one_has_a_new_epoch(scripted_broker: Any) -> None:
    """KIP-360: the broker did not take a sequence; under the next epoch they begin at 0."""

    async def work(bench: Bench) -> None:
        await bench.one(b"before")
        bench.refused[ProduceRequest] = [ErrorCode.INVALID_RECORD]
        bench.driver.begin()
        bench.send(b"bad")
        await bench.until_told(2)
        with pytest.raises(AbortRequired, match=r"call abort_transaction\(\): INVALID_RECORD: t-0") as failed:
            bench.send(b"refused")
        assert isinstance(failed.value.reason, KafkaError)
        with pytest.raises(AbortRequired):
            await bench.driver.commit(SECOND)
        with pytest.raises(AbortRequired):
            await bench.driver.send_offsets(OFFSETS, GROUP, SECOND)
        with pytest.raises(AbortRequired):
            bench.driver.begin()
        await bench.driver.abort(SECOND)
        await bench.one(b"after")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"before", b"after"]
    assert bench.epoch == 1
    bump = bench.brokers[0].requests(InitProducerIdRequest)[-1]
    assert (bump.producer_id, bump.producer_epoch) == (40, 0)


def test_a_gap_that_a_retry_closes_is_no_failure(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        await bench.one(b"before")
        bench.refused[ProduceRequest] = [ErrorCode.NOT_ENOUGH_REPLICAS]
        bench.driver.begin()
        bench.send(b"first")
        bench.send(b"second")  # out of order, until the first is there
        await bench.driver.commit(60 * SECOND)

    bench = run(scripted_broker, work, batch_size=1)
    assert bench.model.committed[0] == [b"before", b"first", b"second"]
    assert bench.count(ProduceRequest) > 3 and bench.epoch == 0


@pytest.mark.parametrize("error", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_gap_that_nothing_closes_is_left_to_the_abort(scripted_broker: Any, error: ErrorCode) -> None:
    """Without transactions the producer would raise its epoch by itself."""

    async def work(bench: Bench) -> None:
        bench.refused[ProduceRequest] = [error]
        bench.driver.begin()
        bench.send(b"bad")
        with pytest.raises(AbortRequired, match=error.name):
            await bench.driver.commit(60 * SECOND)
        assert bench.count(ProduceRequest) == 1
        await bench.driver.abort(60 * SECOND)
        await bench.one(b"good")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"good"] and bench.epoch == 1


def test_a_record_that_fails_while_the_commit_flushes_fails_the_commit(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[ProduceRequest] = [ErrorCode.INVALID_RECORD]
        bench.driver.begin()
        bench.send(b"bad")
        with pytest.raises(AbortRequired):
            await bench.driver.commit(SECOND)
        await bench.driver.abort(SECOND)
        await bench.one(b"good")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"good"]
    assert [request.committed for request in bench.brokers[0].requests(EndTxnRequest)] == [False, True]


def test_an_abort_fails_what_is_queued_and_waits_for_what_is_on_the_wire(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.driver.begin()
        bench.send(b"named")
        await bench.until_told(1)
        bench.silent.add(ProduceRequest)
        bench.send(b"on the wire")
        await asyncio.sleep(0.05)
        bench.send(b"queued", T1)
        bench.refused[AddPartitionsToTxnRequest] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
        began_ms = bench.clock.monotonic_ms()
        await bench.driver.abort(60 * SECOND)
        assert bench.clock.monotonic_ms() - began_ms > 900, "the request's time must be over first"
        bench.silent.clear()
        assert [type(error) for error in bench.heard[1:]] == [TransactionAborted, KafkaError]
        await bench.one(b"next")

    bench = run(scripted_broker, work)
    assert bench.model.committed == {0: [b"next"], 1: []}
    assert bench.epoch == 1, "nobody knows whether the broker has the sequence"


def test_an_abort_before_the_coordinator_has_heard_anything(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.silent.add(AddPartitionsToTxnRequest)
        bench.driver.begin()
        bench.send(b"never")
        await asyncio.sleep(0.1)
        await bench.driver.abort(60 * SECOND)
        bench.silent.clear()
        await bench.one(b"next")

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"next"]
    assert [type(error) for error in bench.heard] == [TransactionAborted, type(None)]


def test_records_that_nobody_takes_fail_the_transaction_in_time(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.silent.add(ProduceRequest)
        bench.driver.begin()
        bench.send(b"x")
        with pytest.raises(AbortRequired, match=r"delivery\.timeout\.ms=10000"):
            await bench.driver.commit(60 * SECOND)
        await bench.driver.abort(60 * SECOND)
        bench.silent.clear()
        await bench.one(b"y")

    assert run(scripted_broker, work).model.committed[0] == [b"y"]


def test_a_commit_that_takes_too_long_goes_on_and_is_called_again(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.silent.add(EndTxnRequest)
        bench.driver.begin()
        bench.send(b"x")
        for _ in range(2):
            with pytest.raises(ClientTimeout, match=r"commit_transaction\(\): not done within 2 s; .* call it again"):
                await bench.driver.commit(2 * SECOND)
        with pytest.raises(ClientError, match=r"no send\(\) now: commit_transaction\(\) is under way"):
            bench.send(b"y")
        with pytest.raises(ClientError, match=r"commit_transaction\(\) is still under way"):
            await bench.driver.abort(SECOND)
        bench.silent.clear()
        await asyncio.sleep(10)
        assert bench.model.committed[0] == [b"x"]
        with pytest.raises(ClientError, match=r"commit_transaction\(\) is still under way"):
            bench.driver.begin()
        await bench.driver.commit(SECOND)
        await bench.one(b"y")

    assert run(scripted_broker, work).model.committed[0] == [b"x", b"y"]


def test_a_new_block_aborts_the_last_one_whose_commit_failed_unheard(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.silent.add(ProduceRequest)
        bench.driver.begin()
        bench.send(b"x")
        with pytest.raises(ClientTimeout):
            await bench.driver.commit(SECOND)
        await bench.until_told(1)
        bench.silent.clear()
        await bench.driver.begin_after_the_last(60 * SECOND)
        bench.send(b"y")
        await bench.driver.commit(SECOND)

    assert run(scripted_broker, work).model.committed[0] == [b"y"]


def test_a_commit_waits_for_offsets_that_nobody_waits_for(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[TxnOffsetCommitRequest] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 6
        bench.driver.begin()
        with pytest.raises(ClientTimeout, match="send_offsets_to_transaction"):
            await bench.driver.send_offsets(OFFSETS, GROUP, 0.1 * SECOND)
        assert bench.refused[TxnOffsetCommitRequest]
        await bench.driver.commit(60 * SECOND)

    assert run(scripted_broker, work).model.offsets == {TopicPartition("s", 0): 5}


@pytest.mark.parametrize("error", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_offsets_of_a_member_that_is_none_any_more(scripted_broker: Any, error: ErrorCode) -> None:
    async def work(bench: Bench) -> None:
        bench.refused[TxnOffsetCommitRequest] = [error]
        bench.driver.begin()
        with pytest.raises(AbortRequired, match=f"group g: offsets not committed.*{error.name}"):
            await bench.driver.send_offsets(OFFSETS, GROUP, SECOND)
        await bench.driver.abort(SECOND)
        await bench.one(b"x")

    bench = run(scripted_broker, work)
    assert not bench.model.offsets and bench.epoch == 0


def test_close_waits_for_a_commit_and_aborts_what_is_open(scripted_broker: Any) -> None:
    async def work(bench: Bench) -> None:
        bench.lost[EndTxnRequest] = 1
        bench.driver.begin()
        bench.send(b"x")
        with pytest.raises(ClientTimeout):
            await bench.driver.commit(0.1 * SECOND)
        await bench.driver.close(60 * SECOND)
        await bench.driver.commit(SECOND)
        bench.driver.begin()
        bench.send(b"y")
        await bench.until_told(2)
        await bench.driver.close(60 * SECOND)

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"x"] and bench.model.open[0] == []
    assert [request.committed for request in bench.brokers[0].requests(EndTxnRequest)] == [True, True, False]


def test_two_tasks_that_wait_for_one_commit_do_not_lose_the_next(scripted_broker: Any) -> None:
    """The second forgot the call that the first had begun since: after a ClientTimeout nobody could wait for it."""

    async def work(bench: Bench) -> None:
        async def commit_and_go_on() -> None:
            await bench.driver.commit(60 * SECOND)
            bench.driver.begin()
            bench.send(b"next")
            bench.silent.add(EndTxnRequest)
            with pytest.raises(ClientTimeout):
                await bench.driver.commit(SECOND)

        bench.driver.begin()
        bench.send(b"x")
        await asyncio.gather(commit_and_go_on(), bench.driver.commit(60 * SECOND))
        bench.silent.clear()
        await bench.driver.commit(60 * SECOND)

    bench = run(scripted_broker, work)
    assert bench.model.committed[0] == [b"x", b"next"]
