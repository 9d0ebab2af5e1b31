"""Delayed operations: at once, by touch, at the deadline; exactly once."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.purgatory.purgatory import Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel
from odradek.testing.virtual_clock import ManualClock


class Operation:
    """Finishes when `ready`; counts what is done to it."""

    def __init__(self, ready: bool = False, doing: Callable[[], object] = lambda: None) -> None:
        self.ready = ready
        self.doing = doing
        self.tried = self.completed = self.expired = 0
        self.running = False

    def try_complete(self) -> bool:
        assert not self.running, "entered while it runs"
        assert not self.finished, "tried after it has finished"
        self.running = True
        self.tried += 1
        self.doing()
        self.running = False
        self.completed += self.ready
        return self.ready

    def expire(self) -> None:
        assert not self.finished
        self.expired += 1

    @property
    def finished(self) -> bool:
        return self.completed + self.expired > 0


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = TimingWheel(self.clock)
        self.purgatory = Purgatory(self.timers)


def test_it_may_finish_at_once() -> None:
    world = World()
    operation = Operation(ready=True)
    assert world.purgatory.watch(operation, ["a"], 100)
    world.purgatory.touch("a")
    world.clock.advance(200)
    assert (operation.tried, operation.completed, operation.expired) == (1, 1, 0)
    assert (len(world.purgatory), world.purgatory.watched_keys, len(world.timers)) == (0, 0, 0)


def test_held_touches_are_taken_up_together() -> None:
    world = World()
    operation = Operation()
    world.purgatory.watch(operation, ["a"], 100)
    world.purgatory.hold_touches()
    world.purgatory.touch("a")
    operation.ready = True
    world.purgatory.touch("a")
    assert operation.tried == 1
    world.purgatory.release_touches()
    assert (operation.tried, operation.completed) == (2, 1)
    world.purgatory.touch("a")
    assert operation.tried == 2


def test_what_waits_for_many_keys_is_tried_once_for_all_that_were_touched() -> None:
    """A follower's fetch waits for thousands of partitions, and looks at all of them each time."""
    world = World()
    operation = Operation()
    world.purgatory.watch(operation, ["a", "b", "c"], 100)
    world.purgatory.hold_touches()
    for key in ("a", "b", "c"):
        world.purgatory.touch(key)
    world.purgatory.release_touches()
    assert operation.tried == 2


def test_what_was_tried_before_it_is_watched_misses_no_touch() -> None:
    world = World()
    operation = Operation()
    world.purgatory.hold_touches()
    world.purgatory.touch("a")
    assert not world.purgatory.watch(operation, ["a"], 100, tried=True)
    assert operation.tried == 0
    operation.ready = True
    world.purgatory.release_touches()
    assert (operation.tried, operation.completed, len(world.purgatory)) == (1, 1, 0)


def test_nothing_counts_as_tried_while_touches_are_not_held() -> None:
    with pytest.raises(AssertionError, match="may have missed a touch"):
        World().purgatory.watch(Operation(), ["a"], 100, tried=True)


def test_a_touch_of_any_key_finishes_it_and_frees_all_of_it() -> None:
    world = World()
    operation = Operation()
    assert not world.purgatory.watch(operation, ["a", ("b", 1)], 100)
    world.purgatory.touch("a")
    assert not operation.finished
    operation.ready = True
    world.purgatory.touch("other")
    assert not operation.finished
    world.purgatory.touch(("b", 1))
    world.purgatory.touch("a")
    world.clock.advance(200)
    assert (operation.tried, operation.completed, operation.expired) == (3, 1, 0)
    assert (len(world.purgatory), world.purgatory.watched_keys, len(world.timers)) == (0, 0, 0)


def test_the_deadline_finishes_it() -> None:
    world = World()
    operation = Operation()
    world.purgatory.watch(operation, ["a"], 100)
    world.clock.advance(99)
    assert not operation.finished
    world.clock.advance(3)
    operation.ready = True
    world.purgatory.touch("a")
    assert (operation.completed, operation.expired) == (0, 1)
    assert world.purgatory.expired == {"Operation": 1}
    assert (len(world.purgatory), world.purgatory.watched_keys) == (0, 0)


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_no_time_to_wait_means_now(timeout_ms: int) -> None:
    world = World()
    operation = Operation()
    assert world.purgatory.watch(operation, ["a"], timeout_ms)
    assert (operation.tried, operation.expired) == (1, 1)
    assert world.purgatory.watched_keys == 0


def test_one_key_twice_is_one_watch() -> None:
    world = World()
    operation = Operation()
    world.purgatory.watch(operation, ["a", "a"], 100)
    operation.ready = True
    world.purgatory.touch("a")
    assert (operation.tried, operation.completed, world.purgatory.watched_keys) == (2, 1, 0)


def test_operations_are_tried_oldest_first() -> None:
    world = World()
    order: list[int] = []
    for number in range(5):
        operation = Operation(doing=lambda number=number: order.append(number))
        world.purgatory.watch(operation, ["a"], 100)
    order.clear()
    world.purgatory.touch("a")
    assert order == [0, 1, 2, 3, 4]


def test_an_operation_that_touches_its_own_key_is_not_entered_again_but_tried_again() -> None:
    world = World()
    touches = iter(["a", "a"])

    def touch_again() -> None:
        key = next(touches, None)
        if key is None:
            operation.ready = True
        else:
            world.purgatory.touch(key)

    operation = Operation(doing=touch_again)
    world.purgatory.watch(operation, ["a"], 100)
    assert (operation.tried, operation.completed) == (3, 1)


def test_a_chain_of_touches_does_not_deepen_the_stack() -> None:
    world = World()
    length = 5000
    operations: list[Operation] = [
        Operation(doing=lambda number=number: world.purgatory.touch(number + 1) if operations[0].ready else None)
        for number in range(length)
    ]
    for number, operation in enumerate(operations):
        world.purgatory.watch(operation, [number], 100)
    for operation in operations:
        operation.ready = True
    world.purgatory.touch(0)
    assert all(operation.completed == 1 for operation in operations)


def test_two_that_touch_each_other() -> None:
    world = World()
    first = Operation(doing=lambda: world.purgatory.touch("second"))
    second = Operation(doing=lambda: setattr(first, "ready", True))
    world.purgatory.watch(second, ["second"], 100)
    first.ready = False
    world.purgatory.watch(first, ["first"], 100)
    assert first.ready, "the first attempt touched the second"
    world.purgatory.touch("first")
    assert first.completed == 1


def test_expiry_may_touch_and_watch() -> None:
    world = World()
    waiting = Operation()
    follower = Operation()

    class Expiring(Operation):
        def expire(self) -> None:
            super().expire()
            waiting.ready = True
            world.purgatory.touch("w")
            world.purgatory.watch(follower, ["f"], 10)

    world.purgatory.watch(waiting, ["w"], 1000)
    world.purgatory.watch(Expiring(), ["e"], 50)
    world.clock.advance(55)
    assert waiting.completed == 1
    assert not follower.finished
    world.clock.advance(20)
    assert follower.expired == 1


def test_a_bug_in_one_operation_drops_it_alone(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    def fail() -> None:
        raise RuntimeError("a bug")

    broken, sound = Operation(), Operation()
    world.purgatory.watch(broken, ["a"], 100)
    world.purgatory.watch(sound, ["a"], 100)
    broken.doing = fail
    sound.ready = True
    world.purgatory.touch("a")
    assert sound.completed == 1
    assert len(world.purgatory) == 0
    assert "a bug" in caplog.text


def test_a_bug_at_the_deadline_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    class Broken(Operation):
        def expire(self) -> None:
            world.purgatory.touch("a")
            raise RuntimeError("a bug")

    sound = Operation()
    world.purgatory.watch(sound, ["a"], 1000)
    world.purgatory.watch(Broken(), ["b"], 50)
    sound.ready = True
    world.clock.advance(55)
    assert sound.completed == 1
    assert len(world.purgatory) == 0
    assert "a bug" in caplog.text


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("watch"), st.sets(st.integers(0, 4), max_size=3), st.integers(0, 60)),
        st.tuples(st.just("ready"), st.integers(0, 10), st.just(0)),
        st.tuples(st.just("touch"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("advance"), st.integers(0, 40), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_each_operation_finishes_exactly_once(steps: list[tuple[str, object, int]]) -> None:
    world = World()
    operations: list[tuple[Operation, set[int]]] = []
    for what, value, timeout_ms in steps:
        if what == "watch":
            assert isinstance(value, set)
            operations.append((Operation(), value))
            world.purgatory.watch(operations[-1][0], list(value), timeout_ms)
        elif what == "ready" and operations:
            operations[value % len(operations)][0].ready = True  # type: ignore[operator]
        elif what == "touch":
            world.purgatory.touch(value)
            for operation, keys in operations:
                assert operation.finished or not (operation.ready and value in keys)
        elif what == "advance":
            world.clock.advance(value)  # type: ignore[arg-type]
        unfinished = [keys for operation, keys in operations if not operation.finished]
        assert len(world.purgatory) == len(unfinished) == len(world.timers)
        assert world.purgatory.watched_keys == len(set().union(*unfinished))
    world.clock.advance(200)
    assert all(operation.completed + operation.expired == 1 for operation, _ in operations)


def test_a_listener_hears_each_touch_before_what_waits_is_tried() -> None:
    purgatory = Purgatory(TimingWheel(ManualClock()))
    heard: list[str] = []

    class Operation:
        def try_complete(self) -> bool:
            heard.append("tried")
            return False

        def expire(self) -> None:
            raise AssertionError

    def listener() -> None:
        heard.append("heard")
        purgatory.touch("other")

    purgatory.watch(Operation(), ["key", "other"], 1e6)
    purgatory.listen("key", listener)
    purgatory.touch("key")
    assert heard == ["tried", "heard", "tried", "tried"]
    purgatory.unlisten("key", listener)
    assert purgatory.listened_keys == 0
    purgatory.touch("key")
    assert heard[4:] == ["tried"]
