"""Stories for two brokers: every request can be made, every reason is used, and what differs is found."""

from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.headers import RequestHeader, encode_request
from odradek.protocol.messages.heartbeat import HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.messages.produce import PartitionProduceResponse
from odradek.testing.beside import player
from odradek.testing.beside.comparison import IN_WORDS, REASONS, UNFORESEEN, differences, plain
from odradek.testing.beside.drawn_stories import DRAWN
from odradek.testing.beside.group_stories import heartbeat, join
from odradek.testing.beside.player import Exchange, Play, Side
from odradek.testing.beside.playing import SUBJECTS
from odradek.testing.beside.steps import Story, story

STORIES = [one for stories in SUBJECTS.values() for one in stories] + [draw(1) for draw in DRAWN.values()]


@pytest.mark.parametrize("one", STORIES, ids=lambda one: one.name)
def test_each_request_can_be_made_in_every_play(one: Story) -> None:
    side = Side("nowhere:1", ".1")
    for step in one.steps:
        for number in range(one.plays()):
            request = step.request(side)
            encode_request(RequestHeader(request.API_KEY, step.version(number), 1, "raw"), request)


def test_each_reason_is_some_steps() -> None:
    assert {step.wanted for one in STORIES for step in one.steps} - {""} == REASONS.keys()


def test_drawn_stories_are_those_of_their_seeds() -> None:
    for draw in DRAWN.values():
        assert repr(draw(1).steps[:20]) != repr(draw(2).steps[:20])
        assert [step.api for step in draw(1).steps] == [step.api for step in draw(1).steps]


def test_ids_are_compared_by_their_places_and_texts_by_their_presence() -> None:
    first, second = (
        JoinGroupResponse(member_id=drawn, leader=drawn, members=[JoinGroupResponseMember(member_id=drawn)])
        for drawn in ("raw-" + "1" * 36, "raw-" + "2" * 36)
    )
    names = [{first.member_id: "a"}, {second.member_id: "a"}]
    assert plain(first, 9, names[0]) == plain(second, 9, names[1]) != plain(second, 9, {second.member_id: "b"})
    told = [plain(PartitionProduceResponse(error_message=text), 8, {}) for text in ("one", "another", None)]
    assert [path for path, _, _ in differences(told[0], told[1])] == []
    assert list(differences(told[0], told[2])) == [("error_message", "a text", None)]


def played(monkeypatch: pytest.MonkeyPatch, one: Story, *answers: dict[str, list[Any]]) -> list[tuple[int, str, str]]:
    """Return step, path and reason of what differs when either side gives these answers, by actor and in order."""

    class Scripted:
        def __init__(self, address: str) -> None:
            self.exchange: Exchange | None = None
            self._answers = answers[int(address)]

        def send(self, exchange: Exchange) -> None:
            self.exchange = exchange

        def poll(self) -> Exchange | None:
            exchange, self.exchange = self.exchange, None
            if exchange is not None:
                exchange.answer = self._answers[one.steps[exchange.number].actor].pop(0)
            return exchange

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(player, "Actor", Scripted)
    return [(found.step, found.path, found.reason) for found in Play(("0", "1"), one, 0, ".1").run()]


def test_what_differs_is_found_up_to_where_the_brokers_part(monkeypatch: pytest.MonkeyPatch) -> None:
    two = story("two", join("a"), heartbeat("a"), heartbeat("a"))
    theirs = [JoinGroupResponse(member_id="x" * 40), HeartbeatResponse(), HeartbeatResponse()]
    ours = [JoinGroupResponse(member_id="y" * 40), HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)]
    ours.append(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    found = played(monkeypatch, two, {"a": list(theirs)}, {"a": list(ours)})
    assert found == [(1, "error_code", "")], "the second Heartbeat's is a consequence"
    apart = Story("two", two.steps, goes_on=True)
    found = played(monkeypatch, apart, {"a": list(theirs)}, {"a": list(ours)})
    assert found == [(1, "error_code", ""), (2, "error_code", "")]
    assert played(monkeypatch, two, {"a": list(theirs)}, {"a": list(theirs)}) == []


def test_what_ours_says_better_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    one = story("one", heartbeat("a"))
    failed = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert played(monkeypatch, one, {"a": [failed]}, {"a": [HeartbeatResponse()]}) == [(0, "error_code", UNFORESEEN)]
    assert played(monkeypatch, one, {"a": [HeartbeatResponse()]}, {"a": [failed]}) == [(0, "error_code", "")]
    assert IN_WORDS not in REASONS.values()


def test_a_request_that_came_too_early_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one = story("one", heartbeat("a"))
    early = HeartbeatResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    assert played(monkeypatch, one, {"a": [early, HeartbeatResponse()]}, {"a": [HeartbeatResponse()]}) == []
