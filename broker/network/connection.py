"""Connection of a client: frames in, answers out.

- Requests are handled in the order in which they came. All complete requests of a wake-up are handled first; then their
  answers are flushed together, and the operations that wait for their effects are tried. So a follower fetches all the
  batches of a wake-up at once.
- Answers go out in the same order. While a request waits, those behind it are not handled, unless it may be overtaken.
- A connection is *held* (none of its requests is handled) while a request waits, while it is throttled, while too many
  of its requests are under way, and while its client has too many bytes left to read. What comes in meanwhile is read
  ahead up to a limit; then reading stops and TCP holds the client back. So a slow reader costs a bounded amount of
  memory, and nobody else's time.
- `Slot.answer` neither sends the answer nor takes up the next request: that is done in a later turn of the loop.
"""

import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from odradek.broker.metrics.request_metrics import MEASURE_EVERY_S, MEASURE_PAUSE_S, RequestWatch, Sampling, all_sent
from odradek.broker.network.boundary import Boundary
from odradek.broker.network.buffers import UNREADABLE, Output, ReceiveBuffer, Slot, Slots
from odradek.broker.network.limits import LONG_WAIT_MS, READ_AHEAD_BYTES, UNANSWERED_REQUESTS_MAX, UNSENT_BYTES_MAX
from odradek.broker.network.outcomes import Client, Deferred, Dispatch, Reply, Settled, Wait
from odradek.broker.purgatory.purgatory import DelayedOperation, Purgatory
from odradek.broker.purgatory.timing_wheel import TimingWheel, WheelTimer
from odradek.protocol.fields import Message
from odradek.protocol.primitives import Part
from odradek.security.errors import AuthenticationFailed
from odradek.world.clock import Clock
from odradek.world.network import Endpoint

logger = logging.getLogger(__name__)


class Host(Protocol):
    """Interface of the server that a connection belongs to."""

    clock: Clock
    timers: TimingWheel
    purgatory: Purgatory
    dispatch: Dispatch
    idle_ms_max: int
    refusal_delay_ms: int
    """Delay of the answer to a failed authentication (`connection.failed.authentication.delay.ms`)."""
    sampling: Sampling

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine as a task."""

    def connection_closed(self, connection: Any) -> None:
        """Forget a connection that has closed."""

    def buffer_taken(self, connection: Any) -> None:
        """Note that a connection has taken a receive buffer of its own; call its `review_buffer` from time to time."""


class Guarded:
    """A delayed operation as the purgatory holds it: an error of ours in it closes its connection, and nothing else.

    `reader` is the connection of an operation that only reads: once that is closed, the operation is not run any more.
    """

    __slots__ = ("_boundary", "_reader", "guarded")

    def __init__(self, operation: DelayedOperation, boundary: Boundary, reader: "Connection | None") -> None:
        self.guarded = operation
        self._boundary, self._reader = boundary, reader

    def try_complete(self) -> bool:
        if self._reader is not None and self._reader.closed:
            return True
        with self._boundary:
            return self.guarded.try_complete()
        return True

    def expire(self) -> None:
        if self._reader is None or not self._reader.closed:
            with self._boundary:
                self.guarded.expire()


class Connection:
    """Connection of one client, made by the server for an accepted endpoint. Loop-thread only."""

    def __init__(
        self, host: Host, endpoint: Endpoint, client: Client, buffer: ReceiveBuffer, gate: Dispatch | None = None
    ) -> None:
        """Take the endpoint. `gate`, if any, handles the requests in place of the host."""
        self.client = client
        self._perf_counter = host.clock.perf_counter
        self.last_active_s = self._perf_counter()
        self._host = host
        self._gate = gate
        self._sampling = host.sampling
        self._endpoint = endpoint
        self._buffer = buffer
        self._output = Output(endpoint, self._on_writable)
        self._slots = Slots()
        self._sending: list[RequestWatch] = []
        """Watches of the unsent answers that are measured."""
        self._boundary = Boundary(client.peer, self._abandon)
        self._held = False
        self._reading = True
        self._handling = self._resuming = False
        self._closing = False
        """True to close as soon as every answer that is due has been sent."""
        self._ended = False
        """True when the client has stopped sending: close as soon as all its requests are handled and answered."""
        self._closed = False
        self._throttle: WheelTimer | None = None
        self._idle_timer = host.timers.call_later(host.idle_ms_max, self._check_idle) if host.idle_ms_max >= 0 else None
        endpoint.on_readable(self._on_readable)

    # callbacks of the endpoint and of timers

    def _on_readable(self) -> None:
        buffer = self._buffer
        try:
            received = self._endpoint.receive_into(buffer.view[buffer.end :] if buffer.end else buffer.view)
        except BlockingIOError:
            return
        except AuthenticationFailed as error:
            self._refuse(error)
            return
        except OSError:
            self.close()
            return
        if not received:
            self._end()
            return
        buffer.end += received
        self.last_active_s = self._perf_counter()
        with self._boundary:
            self._handle_received()

    def _end(self) -> None:
        """Handle and answer what has come, as the client sends no more; it may have closed only its half.

        Whether the client still reads shows when an answer is sent. The connection is kept for LONG_WAIT_MS at most,
        except while it is throttled with requests left: they are still handled.
        """
        self._ended = True
        self.last_active_s = self._perf_counter()
        self._endpoint.on_readable(None)
        self._reading = False
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = self._host.timers.call_later(LONG_WAIT_MS, self._check_idle)
        self._flush()

    def _refuse(self, reason: AuthenticationFailed) -> None:
        """Close after a delay, which slows down whoever tries again and again (KIP-306)."""
        logger.warning("refusing %s: %s", self.client.peer, reason)
        self.client.refused = True
        self._endpoint.on_readable(None)
        self._throttle = self._host.timers.call_later(self._host.refusal_delay_ms, self.close)

    def _on_writable(self) -> None:
        self.last_active_s = self._perf_counter()
        self._flush()
        self._resume_if_free()

    def _end_throttle(self) -> None:
        self._throttle = None
        self._resume_if_free()

    def _check_idle(self) -> None:
        """Close the connection if it is idle, else look again later. A client that waits for an answer is not idle."""
        limit_ms, waits = self._host.idle_ms_max, bool(self._slots)
        if self._ended:
            limit_ms, waits = LONG_WAIT_MS, self._throttle is not None and self.unhandled_bytes > 0
        idle_ms = (self._perf_counter() - self.last_active_s) * 1000.0
        if idle_ms >= limit_ms and not waits:
            self.close()
        else:
            delay_ms = limit_ms - idle_ms if idle_ms < limit_ms else limit_ms
            self._idle_timer = self._host.timers.call_later(delay_ms, self._check_idle)

    # requests

    def _handle_received(self) -> None:
        """Handle the received requests as far as that is allowed, and send the answers."""
        more = True
        while more and not self._closed:
            self._handle_frames()
            self._flush()
            more = self._held and self._hold_if_needed()
        if self._closed:
            return
        buffer = self._buffer
        buffer.settle(grow=not self._held)
        if buffer.is_own:
            self._host.buffer_taken(self)
        self._read_or_pause()

    def _handle_frames(self) -> None:
        """Handle frames until there is no whole one left or the connection is held."""
        buffer, output, slots = self._buffer, self._output, self._slots
        dispatch, client = self._gate or self._host.dispatch, self.client
        purgatory = self._host.purgatory
        watch = None
        measured = self.last_active_s >= self._sampling.next_s
        if measured:
            now_s = self._perf_counter()
            self._sampling.next_s = now_s + MEASURE_EVERY_S
        self._handling = True
        purgatory.hold_touches()
        try:
            while not self._held and (frame := buffer.next_frame()) is not None:
                answer = dispatch(frame, client)
                if measured:
                    began_s, now_s = now_s, self._perf_counter()
                    watch = RequestWatch(client.api, self.last_active_s, began_s, now_s)
                    self._sampling.next_s += MEASURE_PAUSE_S
                    if answer is None:
                        watch.sent(now_s)
                if answer is None:
                    continue
                if isinstance(answer, list) and not slots:
                    output.push(answer)
                    if watch is not None:
                        self._sending.append(watch)
                    if output.unsent_bytes > UNSENT_BYTES_MAX:
                        self._held = True
                else:
                    self._answer_in_turn(answer, watch)
                    self._hold_if_needed()
        finally:
            purgatory.release_touches()
            self._handling = False

    def _answer_in_turn(self, answer: list[Part] | Deferred, watch: RequestWatch | None) -> None:
        """Take an answer that comes later, has to wait for earlier ones, or is none at all."""
        if isinstance(answer, list):
            slot = Slot(None, True, self._answered, watch)
            slot.fill(answer)
            self._slots.add(slot)
        else:
            self._defer(answer, watch)
        self._slots.take_ready(self._push)

    def _defer(self, deferred: Deferred, watch: RequestWatch | None) -> None:
        outcome = deferred.outcome
        slot = Slot(deferred, isinstance(outcome, Wait) and outcome.may_be_overtaken, self._answered, watch)
        self._slots.add(slot)
        if isinstance(outcome, Coroutine):
            self._host.run(self._settle_later(slot, outcome))
        else:
            self._settle(slot, outcome)

    async def _settle_later(self, slot: Slot, outcome: Coroutine[Any, Any, Settled]) -> None:
        with self._boundary:
            self._settle(slot, await outcome)

    def _settle(self, slot: Slot, outcome: Settled) -> None:
        if isinstance(outcome, Wait):
            self._wait(slot, outcome)
        else:
            response = outcome.response if isinstance(outcome, Reply) else None
            self._answered(slot, response, outcome.throttle_ms)
            self._closing = self._closing or outcome.close

    def _wait(self, slot: Slot, wait: Wait) -> None:
        operation, keys = wait.start(slot.answer), wait.keys
        guarded = Guarded(operation, self._boundary, self if wait.only_reads else None)
        if wait.only_reads and wait.timeout_ms > LONG_WAIT_MS:
            keys = [*keys, self]  # touched when it is closed, not only at the timeout
        self._host.purgatory.watch(guarded, keys, wait.timeout_ms, tried=wait.tried)
        if wait.may_be_overtaken and not slot.may_be_overtaken and not self._closed:
            self._slots.let_overtake(slot)
            self._host.clock.call_soon(self._send_and_resume)

    def _answered(self, slot: Slot, response: Message | None, throttle_ms: int) -> None:
        """Take a handler's response, at once or later, from anywhere on the loop; None if there is to be no answer."""
        if self._closed:
            return
        with self._boundary:
            assert slot.deferred is not None, "a request was answered twice"
            self._slots.fill(slot, slot.deferred.answer(response))
            if slot.watch is not None:
                slot.watch.answered(self._perf_counter(), throttle_ms)
            if throttle_ms > 0:
                self._held = True  # also behind an answer that others have overtaken
                self._throttle = self._host.timers.extend(self._throttle, throttle_ms, self._end_throttle)
        if not self._handling and not self._resuming and not self._closed:
            self._resuming = True
            self._host.clock.call_soon(self._send_and_resume)

    def _send_and_resume(self) -> None:
        """Send what has been answered and resume, in a turn of the loop of its own."""
        self._resuming = False
        self._flush()
        self._resume_if_free()

    # when requests may be handled, and bytes be read

    def _hold_if_needed(self) -> bool:
        """Hold the connection while there is a reason to, and no longer; tell whether it is free."""
        self._held = (
            self._closing
            or self._slots.must_wait
            or self._throttle is not None
            or len(self._slots) >= UNANSWERED_REQUESTS_MAX
            or self._output.unsent_bytes + self._slots.filled_bytes > UNSENT_BYTES_MAX
        )
        return not self._held

    def _resume_if_free(self) -> None:
        """Handle requests again if the connection was held and no reason for that is left."""
        if not self._closed and self._held and self._hold_if_needed():
            with self._boundary:
                self._handle_received()

    def _read_or_pause(self) -> None:
        buffer = self._buffer
        ahead = buffer.has_room and buffer.end - buffer.start < READ_AHEAD_BYTES
        readable = not self._ended and (not self._held or (ahead and not self._closing))
        if readable != self._reading:
            self._reading = readable
            self._endpoint.on_readable(self._on_readable if readable else None)

    # sending and closing

    def _flush(self) -> None:
        """Send what is queued. If the connection is to close, close it once every answer that is due has been sent."""
        if self._closed:
            return
        if self._slots:
            self._slots.take_ready(self._push)
        if self._output.unsent_bytes:
            try:
                self._output.flush()
            except OSError as error:
                if error.errno in UNREADABLE:
                    logger.warning("closing the connection with %s, a log cannot be read: %s", self.client.peer, error)
                self.close()
                return
        if self._sending and not self._output.unsent_bytes:
            all_sent(self._sending, self._perf_counter())
        over = self._closing or (self._ended and not self._held)
        if over and not self._slots and not self._output.unsent_bytes:
            self.close()

    def _push(self, parts: list[Part], watch: RequestWatch | None) -> None:
        """Queue an answer whose turn has come."""
        self._output.push(parts)
        if watch is not None:
            watch.queued(self._perf_counter())
            self._sending.append(watch)

    def _abandon(self) -> None:
        """End this connection for its boundary; requests before the one that failed get their answers."""
        try:
            self._flush()
        finally:
            self.close()

    def admit(self, request_bytes_max: int) -> None:
        """Allow requests of up to `request_bytes_max` bytes from now on, as the client has authenticated."""
        self._buffer.frame_bytes_max = request_bytes_max

    @property
    def closed(self) -> bool:
        """Tell whether the connection is closed."""
        return self._closed

    @property
    def is_backlogged(self) -> bool:
        """Tell whether requests wait to be handled; a connection can be held without having any."""
        return self._held and self._buffer.end > self._buffer.start

    @property
    def unhandled_bytes(self) -> int:
        """Number of bytes that have come in and are not handled."""
        return self._buffer.end - self._buffer.start

    @property
    def unanswered(self) -> int:
        """Number of requests that are under way, or whose answers wait for one that is."""
        return len(self._slots)

    def review_buffer(self) -> bool:
        """Give back memory that is not used; tell whether the connection still has a buffer of its own."""
        self._buffer.review()
        return self._buffer.is_own

    def close(self) -> None:
        """Close at once; what is not sent is lost. Harmless twice."""
        if self._closed:
            return
        self._closed = True
        self._endpoint.close()
        self._output.clear()
        self._slots.clear()
        self._sending.clear()
        self._buffer.release()
        for timer in (self._throttle, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self._host.purgatory.touch(self)
        self._host.connection_closed(self)
