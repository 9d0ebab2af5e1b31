"""The console over HTTP, on a cluster in this process: what it answers, to whom, and what it keeps to itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from odradek.aio import Consumer, Producer
from odradek.console.actions import KILL, ActionRefusedError
from odradek.console.guard import HEADERS
from odradek.console.life import ConsolePlan, RunningConsole
from odradek.console.snapshot import BrokerProcess
from odradek.console.stream import STREAMS_MAX, Stream
from odradek.testing import Cluster
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.world.clock import LoopClock

TOKEN = "a-token"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}
LONGEST = "t" * 249


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        3, topics={"flights": 2, "others": 1, "big": 1, LONGEST: 1}, settings={"message.max.bytes": "12000000"}
    ) as it:
        yield it


class InHand:
    """Brokers that can be told to do something."""

    def __init__(self) -> None:
        self.acts: list[tuple[int, str]] = []

    def processes(self) -> Sequence[BrokerProcess]:
        return [BrokerProcess(number, 100 + number, "registered", [KILL]) for number in range(3)]

    async def act(self, broker_id: int, action: str) -> None:
        if action != KILL:
            raise ActionRefusedError(f"broker {broker_id} runs")
        self.acts.append((broker_id, action))


class Page:
    """A browser's side."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session, self.base = session, base

    async def get(self, path: str, query: Any = None, headers: Any = None) -> tuple[int, Any]:
        async with self.session.get(self.base + path, params=query, headers=headers) as answer:
            return answer.status, await answer.json()

    async def post(self, body: Any, headers: Any = None) -> tuple[int, Any]:
        async with self.session.post(f"{self.base}/api/act", json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def events(self, view: str = "", headers: Any = None) -> AsyncIterator[tuple[str, Any]]:
        async with self.session.get(f"{self.base}/api/stream", params={"view": view}, headers=headers) as answer:
            assert answer.status == 200 and answer.content_type == "text/event-stream"
            text = b""
            async for piece in answer.content.iter_any():
                text += piece
                *parts, text = text.split(b"\n\n")
                for part in parts:
                    event, data = part.decode().split("\n", 1)
                    yield event.removeprefix("event: "), json.loads(data.removeprefix("data: ") or "null")

    async def first(self, event: str, view: str = "", wanted: Callable[[Any], bool] = lambda value: True) -> Any:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for name, value in self.events(view):
                if name == event and wanted(value):
                    return value
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def page_of(cluster: Cluster, brokers: InHand | None = None, **settings: Any) -> AsyncIterator[Page]:
    plan = ConsolePlan(cluster.bootstrap, port=0, token=TOKEN, **settings)
    console = RunningConsole(plan, LoopClock(asyncio.get_running_loop()), brokers)
    async with console, aiohttp.ClientSession() as session:
        yield Page(session, console.url.partition("/#")[0])


def play(
    cluster: Cluster, scenario: Callable[[Page], Awaitable[None]], brokers: InHand | None = None, **settings: Any
) -> None:
    async def run() -> None:
        async with page_of(cluster, brokers, **settings) as page:
            await scenario(page)

    asyncio.run(run())


async def produce(
    cluster: Cluster, topic: str, *records: tuple[bytes | None, bytes | None], partition: int = 0
) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap, max_request_size=11_000_000) as producer:
        for key, value in records:
            await (await producer.send(topic, key=key, value=value, partition=partition, headers=[("<h>", b"\x00")]))


def test_no_more_pages_than_may_be_are_open_however_slowly_they_are_answered(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those counted that had their first answer."""

    async def scenario(page: Page) -> None:
        prepare, go_on = web.StreamResponse.prepare, asyncio.Event()
        begun = asyncio.Queue[None]()

        async def slowly(response: web.StreamResponse, request: web.BaseRequest) -> Any:
            if request.path == "/api/stream" and type(response) is web.StreamResponse:
                begun.put_nowait(None)
                await go_on.wait()
            return await prepare(response, request)

        monkeypatch.setattr(web.StreamResponse, "prepare", slowly)
        async with asyncio.TaskGroup() as group:
            pages = [group.create_task(page.first("state")) for _ in range(STREAMS_MAX)]
            for _ in pages:
                await begun.get()
            assert await page.get("/api/stream") == (503, {"error": "too many pages are open"})
            go_on.set()

    play(cluster, scenario)


def test_a_page_that_takes_nothing_gives_its_place_up(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty-two that were open in a browser that was stopped kept everybody out."""
    monkeypatch.setattr("odradek.console.stream.TAKEN_SECONDS", 0.2)
    monkeypatch.setattr("odradek.console.stream.STREAMS_MAX", 1)
    monkeypatch.setattr("odradek.console.stream.ALIVE_MS", 1.0)
    send = Stream._send

    async def send_much(stream: Stream, event: str, data: str) -> None:
        await send(stream, event, json.dumps("x" * 1_000_000) if event == "alive" else data)

    monkeypatch.setattr(Stream, "_send", send_much)

    async def scenario(page: Page) -> None:
        host, port = page.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(f"GET /api/stream HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                async with page.session.get(f"{page.base}/api/stream") as answer:
                    if answer.status == 503:
                        break
            while True:
                async with page.session.get(f"{page.base}/api/stream") as answer:
                    if answer.status == 200:
                        break
        writer.close()

    play(cluster, scenario)


def test_the_state_has_brokers_topics_and_a_leader_that_moves(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        state = await page.first("state", wanted=lambda state: len(state["brokers"]) == 3)
        topics = {topic["name"]: topic["partitions"] for topic in state["topics"]}
        assert len(topics["flights"]) == 2 and LONGEST in topics
        leader = topics["flights"][0][0]
        await asyncio.to_thread(cluster.move_leader, "flights", 0, (leader + 1) % 3)
        told = await page.first("happenings", wanted=lambda some: any("flights-0" in one["title"] for one in some))
        # Two, where a look came between the reassignment and the election.
        assert {one["source"] for one in told if "flights-0" in one["title"]} == {"observed"}

        def moved(state: Any) -> bool:
            topics = {topic["name"]: topic["partitions"] for topic in state["topics"]}
            return bool(topics["flights"][0][0] == (leader + 1) % 3)

        await page.first("state", wanted=moved)

    play(cluster, scenario)


def test_every_answer_has_the_headers_and_strangers_get_none(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        for path, status in (("/", 200), ("/page/main.js", 200), ("/page/../server.py", 404), ("/api/nothing", 404)):
            async with page.session.get(page.base + path) as answer:
                assert answer.status == status, path
                assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS)
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await page.get("/api/records", {"topic": "flights"}, headers))[0] == 403
            assert (await page.get("/api/stream", None, headers))[0] == 403

    play(cluster, scenario)


def test_a_private_console_tells_nothing_without_the_token(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        assert (await page.get("/api/records", {"topic": "flights"}))[0] == 403
        assert (await page.get("/api/records", {"topic": "flights"}, ALLOWED))[0] == 200
        assert (await page.get("/api/stream"))[0] == 403
        async for event, _ in page.events(headers=ALLOWED):
            assert event == "state"
            break

    play(cluster, scenario, host="0.0.0.0", allowed_hosts=["0.0.0.0"])


@pytest.mark.parametrize(
    ("settings", "host", "private"),
    [
        ({}, "127.0.0.1", False),
        ({"security.protocol": "PLAINTEXT"}, "localhost", False),
        ({"security.protocol": "SASL_SSL"}, "127.0.0.1", True),
        ({"security.protocol": "SSL"}, "127.0.0.1", True),
        ({}, "0.0.0.0", True),
    ],
)
def test_a_console_is_private_where_the_cluster_is_or_where_others_reach_it(
    settings: dict[str, str], host: str, private: bool
) -> None:
    assert ConsolePlan("127.0.0.1:9092", settings, host).private is private


def test_records_by_offset_by_time_newest_and_oldest(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        await produce(cluster, "flights", *((f"k{number}".encode(), b'{"a": 1}') for number in range(20)))
        await produce(cluster, "flights", (None, None), partition=1)

        async def read(**query: Any) -> list[tuple[int, int]]:
            status, found = await page.get("/api/records", {"topic": "flights", **query})
            assert status == 200, found
            return [(one["partition"], one["offset"]) for one in found["records"]]

        assert await read(**{"from": "earliest", "count": 2}) == [(0, 0), (0, 1)]
        assert await read(**{"from": "latest", "count": 2}) == [(0, 19), (1, 0)]
        assert await read(**{"from": "offset", "at": 7, "partition": 0, "count": 1}) == [(0, 7)]
        assert await read(**{"from": "offset", "at": 10**9, "partition": 0}) == []
        _, found = await page.get("/api/records", {"topic": "flights", "from": "earliest"})
        sixth = found["records"][5]
        assert (await read(**{"from": "time", "at": sixth["at_ms"]}))[0][1] <= sixth["offset"]
        assert sixth["value"]["form"] == "json" and sixth["headers"][0][0] == "<h>"
        assert found["records"][-1]["key"]["form"] == "null"

    play(cluster, scenario)


def test_a_value_of_ten_megabytes_is_cut_with_its_size(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        await produce(cluster, "big", (b"k", b"<b>" * 3_333_333))
        _, found = await page.get("/api/records", {"topic": "big"})
        (record,) = found["records"]
        assert record["value"]["size"] == 9_999_999 and record["value"]["cut"] and len(record["value"]["text"]) <= 400
        where = {"topic": "big", "partition": 0, "offset": record["offset"]}
        _, field = await page.get("/api/field", {**where, "part": "value", "as": "text"})
        assert field["size"] == 9_999_999 and field["cut"] and len(field["text"]) == 65_536
        _, field = await page.get("/api/field", {**where, "part": "header:0"})
        assert field["form"] == "hex"
        status, refused = await page.get("/api/field", {**where, "part": f"header:{'9' * 5000}"})
        assert status == 200 and refused["error"].endswith("the record has no such header")

    play(cluster, scenario)


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("records", {}, "topic is missing"),
        ("records", {"topic": "flights", "from": "x"}, "earliest, latest, offset or time"),
        ("records", {"topic": "flights", "from": "offset", "at": "1"}, "needs a partition"),
        ("records", {"topic": "flights", "from": "offset", "at": "-1", "partition": "0"}, "0 or more"),
        ("records", {"topic": "flights", "as": "xml"}, "auto, text, json, hex"),
        ("records", {"topic": "no-such-topic"}, "no-such-topic"),
        ("records", {"topic": "<script>"}, "<script>"),
        ("records", {"topic": "flights", "partition": "99"}, "flights has partitions 0 to 1"),
        ("field", {"topic": "flights", "partition": "0", "offset": "99999"}, "no record at offset"),
        ("stream", {"view": "nonsense"}, "no view"),
        ("stream", {"view": "tail:flights:x"}, "0 or more"),
    ],
)
def test_questions_that_cannot_be_answered_get_one_line(
    cluster: Cluster, path: str, query: dict[str, str], said: str
) -> None:
    async def scenario(page: Page) -> None:
        status, answer = await page.get(f"/api/{path}", query)
        assert status in (200, 400) and said in answer["error"] and "\n" not in answer["error"]

    play(cluster, scenario)


def test_a_tail_shows_what_comes_in(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        values = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for event, value in page.events("tail:others"):
                if event != "view":
                    continue
                if value["tail"] == 0:
                    await produce(cluster, "others", (b"new", b"now"))
                values += [one["value"]["text"] for one in value["records"]]
                if values:
                    break
        assert values == ["now"]

    play(cluster, scenario)


def test_topics_and_one_topic(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        await produce(cluster, "others", (b"k", b"v"))
        sizes = await page.first("view", "topics", lambda view: view["sizes"].get("others"))
        assert sizes["sizes"]["others"] > 0
        topic = await page.first("view", "topic:others")
        assert topic["partitions"][0]["end"] >= 1 and topic["trouble"] == []
        assert any(one["name"] == "retention.ms" for one in topic["settings"])
        assert "no-such" in (await page.first("view", "topic:no-such"))["error"]

    play(cluster, scenario)


def test_a_group_with_its_lag_and_its_generation(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        await produce(cluster, "others", *((None, b"v") for _ in range(5)))
        name = "<b>\u202egroup"
        reader = Consumer(
            "others", bootstrap_servers=cluster.bootstrap, group_id=name, client_id="app", auto_offset_reset="earliest"
        )
        async with reader, asyncio.timeout(PATIENCE_SECONDS):
            while not await reader.getmany(200):
                pass  # its end commits where it stands, once it has a place in the group and stands somewhere
            group = await page.first(
                "view", "group:<b>\u202egroup", lambda view: view.get("rebalances", {}).get("generations")
            )
            assert group["rebalances"]["generations"][-1]["generation"] == 1
            assert group["rebalances"]["generations"][-1]["members"] == ["app"]
            assert [one["client"] for one in group["members"]] == ["app"]
        listed = await page.first("view", "groups", lambda view: any(one[0] == name for one in view))
        assert all(len(one) == 3 for one in listed)
        _, lags = await page.get("/api/lags", [("group", name), ("group", "no-such")])
        assert lags[name]["partitions"] == 1 and lags["no-such"]["state"] == "Dead"

    play(cluster, scenario)


def test_an_open_transaction(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id="bills") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await (await producer.send("others", b"v"))
                view = await page.first("view", "transactions", lambda view: view.get("transactions"))
                (one,) = [one for one in view["transactions"] if one["id"] == "bills"]
                assert one["state"] == "Ongoing" and one["partitions"] == ["others-0"] and not one["overdue"]

    play(cluster, scenario)


def test_actions_need_the_token_and_are_on_the_time_line(cluster: Cluster) -> None:
    brokers = InHand()

    async def scenario(page: Page) -> None:
        kill = {"broker": 1, "action": KILL}
        assert (await page.post(kill))[0] == 403
        assert (await page.post(kill, {**ALLOWED, "Origin": "http://evil.example"}))[0] == 403
        for nobody in ("x", float("inf")):
            assert (await page.post(kill | {"broker": nobody}, ALLOWED))[0] == 400
        assert (await page.post({"broker": 1, "action": "start"}, ALLOWED)) == (409, {"error": "broker 1 runs"})
        assert brokers.acts == []
        assert (await page.post(kill, ALLOWED)) == (200, {"done": KILL})
        assert brokers.acts == [(1, KILL)]
        told = await page.first("happenings", wanted=lambda some: some[-1]["kind"] == "action")
        assert told[-1]["title"].startswith("broker 1 was killed")
        state = await page.first("state")
        assert state["brokers"][1]["process"] == {"pid": 101, "state": "registered", "actions": [KILL]}

    play(cluster, scenario, brokers)


def test_a_console_without_brokers_in_hand_is_read_only(cluster: Cluster) -> None:
    async def scenario(page: Page) -> None:
        status, answer = await page.post({"broker": 1, "action": KILL}, ALLOWED)
        assert status == 403 and "is read-only" in answer["error"]

    play(cluster, scenario)


def test_a_cluster_that_is_away_is_said_to_be_away() -> None:
    class Away:
        bootstrap = "127.0.0.1:1"

    async def scenario(page: Page) -> None:
        state = await page.first("state")
        assert "127.0.0.1:1" in state["trouble"] and state["brokers"] == []

    play(Away(), scenario)  # type: ignore[arg-type] # nothing else of it is used
