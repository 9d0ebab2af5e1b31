"""Which requests may have been given up by their producers."""

from odradek.broker.transactions.transaction_state import COMPLETE_COMMIT
from odradek.protocol.errors import ErrorCode
from tests.broker.transactions.test_transaction_coordinator import NONE, World, in_world


def test_an_end_is_late_by_what_its_own_producer_has_asked_alone() -> None:
    """Its successor may share an older connection with other producers."""

    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.add(producer)
        assert world.end(producer, connection=9) == [NONE]
        world.write_markers()
        _, successor = world.begin()
        world.add(successor)
        assert world.end(producer, connection=10) == [ErrorCode.PRODUCER_FENCED]
        assert world.end(successor, connection=3) == [NONE]
        world.write_markers()
        world.add(successor)
        assert world.end(successor, connection=4) == [NONE]
        assert world.end(successor, connection=3) == [ErrorCode.CONCURRENT_TRANSACTIONS]

    in_world(scenario)


def test_partitions_that_come_late_begin_no_transaction() -> None:
    """Nobody ended it, and when it had been open for too long its producer, which knew nothing of it, was fenced."""

    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.add(producer, connection=8)
        assert world.end(producer, connection=9) == [NONE]
        world.write_markers()
        assert world.add(producer, connection=8) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert world.state.status is COMPLETE_COMMIT
        assert world.add(producer, connection=8) == [NONE], "who is there asks again, and is heard"

    in_world(scenario)


def test_a_producer_that_has_a_successor_is_told_so_at_once() -> None:
    async def scenario(world: World) -> None:
        _, producer = world.begin()
        world.add(producer, connection=9)
        assert world.end(producer, connection=9) == [NONE]
        world.write_markers()
        world.begin()
        for connection in (9, 8):
            assert world.add(producer, connection=connection) == [ErrorCode.PRODUCER_FENCED]
            assert world.end(producer, connection=connection) == [ErrorCode.PRODUCER_FENCED]

    in_world(scenario)
