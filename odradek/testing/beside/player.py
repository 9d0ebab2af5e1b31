"""Playing a story to two brokers at once: each actor has a connection of its own to either."""

import select
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.protocol.connection import framed
from odradek.protocol.fields import Message, Struct
from odradek.protocol.headers import RequestHeader, decode_response, encode_request
from odradek.testing.beside.comparison import (
    CONVERTED,
    DEFAULTS,
    ELECTED,
    IN_WORDS,
    REASONS,
    REPLACED,
    UNFORESEEN,
    differences,
    plain,
)
from odradek.testing.beside.steps import Step, Story

MAY_WAIT = {"JoinGroup", "SyncGroup"}
"""Answers that wait for other members: the story goes on when none comes."""
NOTHING_COMES_SECONDS = 0.08
"""Time after which an answer that may wait is taken to wait."""
ANSWER_SECONDS = 5.0
"""Time after which an answer is missing."""
NO_ANSWER = "no answer"
OLD_MESSAGE = 2
"""Values by which comparison.plain compares a message of the old formats."""
PAUSE_SECONDS = 0.002


AGAIN_SECONDS = 0.03
"""Between a request that came too early and its repetition."""
CONCURRENT_TRANSACTIONS, UNKNOWN_SERVER_ERROR = 51, -1
PREPARED = {"PrepareCommit", "PrepareAbort"}


@dataclass
class Exchange:
    """A request of one actor to one broker; `answer` is None until it is there, "closed" when the broker hung up."""

    number: int
    key: int
    version: int
    request: Message
    answer: Any = None


def came_too_early(answer: Any) -> bool:
    """Tell whether an answer says that a transaction is not over yet: clients then ask again."""
    if not isinstance(answer, Struct):
        return False
    codes = {getattr(answer, name, 0) for name in ("error_code", "partition_error_code")}
    if CONCURRENT_TRANSACTIONS in codes or getattr(answer, "transaction_state", "") in PREPARED:
        return True
    values = (getattr(answer, line.name) for line in answer.FIELDS)
    return any(came_too_early(one) for value in values if isinstance(value, list) for one in value)


class Actor:
    """A connection to one broker, with at most one request under way."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._socket: socket.socket | None = None
        self._data = b""
        self.exchange: Exchange | None = None
        """What is not answered yet."""

    def send(self, exchange: Exchange) -> None:
        if self._socket is None:
            self._socket, self._data = socket.create_connection(self._address), b""
        self.exchange = exchange
        header = RequestHeader(exchange.key, exchange.version, exchange.number, "raw")
        self._socket.sendall(b"".join(framed(encode_request(header, exchange.request))))

    def poll(self) -> Exchange | None:
        """Return the exchange under way if it is over."""
        exchange = self.exchange
        if exchange is None or self._socket is None:
            return None
        while select.select([self._socket], [], [], 0)[0]:
            try:
                more = self._socket.recv(1 << 20)
            except ConnectionResetError:
                more = b""
            if not more:
                self.close()
                exchange.answer = "closed"
                return exchange
            self._data += more
        size = int.from_bytes(self._data[:4], "big")
        if len(self._data) < 4 or len(self._data) < 4 + size:
            return None
        frame, self._data = self._data[4 : 4 + size], self._data[4 + size :]
        self.exchange = None
        exchange.answer = decode_response(exchange.key, exchange.version, frame)[1]
        return exchange

    def close(self) -> None:
        """Hang up. Harmless twice."""
        if self._socket is not None:
            self._socket.close()
        self._socket = self.exchange = None


class Side:
    """A broker in a play."""

    def __init__(self, address: str, play: str) -> None:
        self.play = play
        self.facts: dict[tuple[str, str], Any] = {}
        self._answers: dict[int, tuple[Any, int]] = {}
        """Answers by step, with the version."""
        self._address = address
        self._actors: dict[str, Actor] = {}
        self._names: dict[Any, str] = {}

    def name_of(self, drawn: str) -> str:
        return self._names.get(drawn, drawn)

    def waits(self, actor: str) -> bool:
        return actor in self._actors and self._actors[actor].exchange is not None

    def waiting(self) -> bool:
        return any(map(self.waits, self._actors))

    def send(self, number: int, step: Step, version: int) -> None:
        request = step.request(self)
        actor = self._actors.setdefault(step.actor, Actor(self._address))
        actor.send(Exchange(number, request.API_KEY, version, request))

    def give_up(self, actor: str) -> None:
        """Wait no more for the actor's answer, whose absence is told in its place."""
        self._actors[actor].close()

    def collect(self) -> None:
        """Take the answers that have come."""
        for name, actor in self._actors.items():
            exchange = actor.poll()
            if exchange is None:
                continue
            if came_too_early(exchange.answer):
                time.sleep(AGAIN_SECONDS)
                actor.send(exchange)
                continue
            if isinstance(exchange.answer, Struct):
                self._learn(name, exchange.answer, outermost=True)
            self._answers[exchange.number] = exchange.answer, exchange.version

    def has_answered(self, number: int) -> bool:
        """Tell whether the answer to a step has come."""
        return number in self._answers

    def answer(self, number: int) -> Any:
        """Return the answer to a step as it is compared, once all answers have come: they tell the ids by name."""
        answer, version = self._answers.get(number, (NO_ANSWER, 0))
        return plain(answer, version, self._names)

    def _learn(self, actor: str, answer: Struct, *, outermost: bool = False) -> None:
        for line in answer.FIELDS:
            value = getattr(answer, line.name)
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Struct):
                    self._learn(actor, one)
        for line in answer.FIELDS:  # afterwards: an outer field stands above one of the same name inside
            value = getattr(answer, line.name)
            self.facts[actor, line.name] = value
            if outermost and line.name in ("member_id", "producer_id") and value not in ("", -1):
                word = f"{line.name} of {actor}"
                count = sum(one.startswith(word) for one in self._names.values())
                self._names.setdefault(value, f"{word}, {count}")

    def close(self) -> None:
        for actor in self._actors.values():
            actor.close()


@dataclass(frozen=True)
class Difference:
    """Answers to one step where they differ: the path of the field, and its values."""

    story: str
    step: int
    api: str
    version: int
    reason: str
    """Why it is wanted; empty when it is not."""
    path: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        where = f"{self.story}, step {self.step}: {self.api} {self.version} {self.path}"
        return f"{where}: Kafka {self.kafka!r:.300}, ours {self.ours!r:.300}"


class Play:
    """Play of a story with one choice of versions."""

    def __init__(self, addresses: Sequence[str], story: Story, number: int, play: str) -> None:
        """`addresses`: Kafka's and ours. `number`: which choice of versions. `play`: the ending of the play's names."""
        self._story, self._number = story, number
        self.sides = [Side(address, play) for address in addresses]
        self.sent: list[int] = []

    def run(self) -> list[Difference]:
        """Return what differs: in a story whose steps build on each other, up to the first step that should not."""
        try:
            for number, step in enumerate(self._story.steps):
                self._step(number, step)
            self._collect_until(lambda: not any(side.waiting() for side in self.sides), ANSWER_SECONDS)
        finally:
            for side in self.sides:
                side.close()
        found = list(self._differences())
        if self._story.goes_on:
            return found
        parting = (one.step for one in found if one.reason in ("", ELECTED))
        unwanted = next(parting, len(self._story.steps))
        return [one for one in found if one.step <= unwanted]

    def _step(self, number: int, step: Step) -> None:
        if self._story.by_chance and self._wait(step.actor):
            self._collect_until(lambda: False, NOTHING_COMES_SECONDS)
            return
        if not self._collect_until(lambda: not self._wait(step.actor), ANSWER_SECONDS):
            for side in self.sides:
                side.give_up(step.actor)
        self.sent.append(number)
        for side in self.sides:
            side.send(number, step, step.version(self._number))
        answered = self._collect_until(
            lambda: not self._wait(step.actor), NOTHING_COMES_SECONDS if step.api in MAY_WAIT else ANSWER_SECONDS
        )
        if not answered and any(side.has_answered(number) for side in self.sides):
            self._collect_until(lambda: not self._wait(step.actor), ANSWER_SECONDS)

    def _wait(self, actor: str) -> bool:
        return any(side.waits(actor) for side in self.sides)

    def _collect_until(self, condition: Any, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            for side in self.sides:
                side.collect()
            if condition():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE_SECONDS)

    def _differences(self) -> Iterator[Difference]:
        for number in self.sent:
            step = self._story.steps[number]
            kafka, ours = (side.answer(number) for side in self.sides)
            where = self._story.name, number, step.api, step.version(self._number)
            for path, theirs, our in differences(kafka, ours):
                reason = REASONS.get(step.wanted, "")
                if path.endswith("error_message") and not theirs:
                    reason = IN_WORDS
                elif step.api == "Fetch" and path.endswith("records") and _goes_on(theirs, our):
                    reason = CONVERTED
                elif path.endswith("is_default"):
                    reason = DEFAULTS
                elif failed(kafka):
                    reason = UNFORESEEN
                elif theirs == NO_ANSWER and step.api in MAY_WAIT:
                    reason = REPLACED
                elif self._story.by_chance and step.api == "JoinGroup" and path in ("leader", "members"):
                    reason = ELECTED
                yield Difference(*where, reason, path, theirs, our)


def _goes_on(theirs: list[Any], ours: list[Any]) -> bool:
    """Tell whether ours are messages of an old format, as Kafka's are, and go on where those end."""
    return bool(theirs) and theirs == ours[: len(theirs)] and len(ours[-1]) == OLD_MESSAGE


def failed(answer: Any) -> bool:
    """Tell whether there is an UNKNOWN_SERVER_ERROR anywhere in a plain answer."""
    if isinstance(answer, dict):
        return answer.get("error_code") == UNKNOWN_SERVER_ERROR or any(map(failed, answer.values()))
    return isinstance(answer, list) and any(map(failed, answer))
