"""The page in a real browser: every view on a cluster under load, a broker that is killed from it, hostile contents."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from odradek import KafkaConsumer, KafkaProducer
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.testing import Cluster
from odradek.testing.needs import need
from odradek.testing.patience import PATIENCE_SECONDS
from odradek.testing.up import UpCluster
from tests.console.large_console import PARTITIONS, LargeConsole

WIDE, NARROW = ViewportSize(width=1400, height=900), ViewportSize(width=390, height=844)
SOMETHING = ".row, .record, tbody tr, .happening"
ROWS_MAX = 200
"""Of those that exist at a time."""
LONGEST = "t" * 249
SCRIPT = "<script>window.harmed = 1</script><img src=x onerror='window.harmed=1'>"
STRANGE = "\u202eevil words\u2066 with a bell \u0007, a \u200b between, an \u0000 and an \u001b[31m"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need("chromium")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        expect.set_options(timeout=PATIENCE_SECONDS * 1000)
        yield browser
        browser.close()


@contextmanager
def tab(browser: Browser, url: str, viewport: Any = WIDE, **options: Any) -> Iterator[Page]:
    """A page that must have no error and talk to nobody but its console."""
    context = browser.new_context(viewport=viewport, **options)
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    ours = url.partition("/#")[0] + "/"
    context.on("request", lambda request: None if request.url.startswith(ours) else wrong.append(request.url))
    try:
        page.goto(url)
        yield page
        harmed = page.evaluate("window.harmed")
    except BaseException as error:
        error.add_note(f"the page said {wrong}, and shows:\n{page.locator('body').inner_text()[:2000]}")
        raise
    finally:
        context.close()
    assert wrong == [] and harmed is None


def go(page: Page, place: str) -> None:
    page.evaluate("place => { location.hash = place }", place)


def place_of(page: Page, selector: str) -> dict[str, float]:
    """Measure an element where it stands: in one go, as each message of the stream draws the page anew."""
    place: dict[str, float] = page.evaluate(
        "selector => document.querySelector(selector).getBoundingClientRect().toJSON()", selector
    )
    assert place["width"] and place["height"]
    return place


def fits(page: Page) -> bool:
    """Tell whether nothing stands out at the right."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


# -- on `up`, under load -----------------------------------------------------------------------------------------------


class Load:
    """Records, a group of two and a transaction, until it is over. What a dying broker makes fail is tried again."""

    def __init__(self, bootstrap: str) -> None:
        self._over = threading.Event()
        self._bootstrap = bootstrap
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume, self._bill)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def _produce(self) -> None:
        with KafkaProducer(bootstrap_servers=self._bootstrap) as producer:
            numbers = itertools.count(1)
            while not self._over.wait(0.3):
                for number in itertools.islice(numbers, 10):
                    value = json.dumps({"flight": number}).encode()
                    producer.send("flights", key=str(number).encode(), value=value, headers=[("source", b"test")])

    def _consume(self) -> None:
        settings = {"bootstrap_servers": self._bootstrap, "group_id": "board", "auto_commit_interval_ms": 500}
        with KafkaConsumer("flights", client_id="board-1", **settings) as consumer:
            while not self._over.is_set():
                consumer.poll(300)

    def _bill(self) -> None:
        with KafkaProducer(bootstrap_servers=self._bootstrap, transactional_id="bills") as producer:
            producer.init_transactions()
            while not self._over.is_set():
                try:
                    with producer.transaction():
                        producer.send("bills", b"paid")
                        self._over.wait(2)
                except (KafkaError, ClientError) as error:
                    if error.fatal:
                        raise


@pytest.mark.zookeeper
@pytest.mark.cluster
def test_every_view_while_a_broker_is_killed_from_the_page_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    overrides = ("offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3", "num.partitions=4")
    up = UpCluster(tmp_path, overrides=overrides, console=True)
    with up, Load(up.bootstrap), tab(browser, up.console) as page:
        kill_and_bring_back(page)
        look_at_every_view(page)
        page.set_viewport_size(NARROW)
        for place in ("map", "topics", "topic/flights", "groups", "group/board", "transactions", "timeline"):
            go(page, f"#/{place}")
            expect(page.locator("main h1")).to_be_visible()
            expect(page.locator(SOMETHING)).not_to_have_count(0)
            assert fits(page), place


def kill_and_bring_back(page: Page) -> None:
    partition = page.locator(".row.partition")
    expect(partition.first).to_be_visible()
    expect(page.locator("h1")).to_have_text("Every partition is led and in sync.")
    expect(page.locator(".crown")).to_have_count(1)
    expect(page.locator("[data-broker='1'] [data-action=kill]")).to_be_visible()
    where = place_of(page, "[data-broker='1'] .acts")
    page.locator("[data-broker='1'] [data-action=kill]").click()
    away = page.locator(".head.away[data-broker='1']")
    expect(away).to_contain_text("was killed by SIGKILL")
    assert place_of(page, "[data-broker='1'] .acts") == where, "a button that moves is pressed for another"
    expect(page.locator("h1")).to_contain_text("lack a replica; all of them are led")
    expect(page.locator(".recent")).to_contain_text("broker 1 was killed (SIGKILL)")
    expect(page.locator(".recent")).to_contain_text("broker 1 is offline (OfflineReplica)")
    titles = partition.evaluate_all("rows => rows.map((row) => row.title)")
    assert titles and not [title for title in titles if "leader 1" in title or "no leader" in title]
    page.locator("[data-broker='1'] [data-action=start]").click()
    expect(away).to_have_count(0)
    expect(page.locator("h1")).to_have_text("Every partition is led and in sync.")
    expect(page.locator("[data-broker='1'] [data-action=kill]")).to_be_enabled()


def look_at_every_view(page: Page) -> None:
    page.keyboard.press("5")
    expect(page.locator(".happenings")).to_contain_text(
        "the leader was gone, so the first live replica of the ISR leads"
    )
    expect(page.locator(".figures")).to_contain_text("From the journals of 3 brokers")
    page.keyboard.press("4")
    expect(page.locator("tbody")).to_contain_text("bills")
    expect(page.locator("tbody")).to_contain_text("Ongoing")
    page.keyboard.press("3")
    expect(page.locator(".row", has_text="board")).to_contain_text("1 member · 4 partitions")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("board")
    expect(page.locator(".figures")).to_contain_text(re.compile(r"Stable · 1 member .* generation \d"))
    expect(page.locator(".generations")).to_contain_text("board-1")
    page.keyboard.press("2")
    expect(page.locator(".row", has_text="flights")).to_contain_text("4 partitions · 3 replicas")
    page.keyboard.press("/")
    page.keyboard.type("flig")
    expect(page.locator(".row")).to_have_count(1)
    page.locator(".row a").click()
    expect(page.locator(".record").first).to_contain_text('"flight"')
    page.get_by_role("button", name="Live").click()
    expect(page.locator(".note").first).to_contain_text("newest first")
    expect(page.locator(".record").first).to_be_visible()
    page.get_by_role("link", name="Partitions").click()
    expect(page.locator("tbody tr")).to_have_count(4)
    page.get_by_role("link", name="Settings").click()
    expect(page.locator("tbody").last).to_contain_text("retention.ms")


# -- contents that mean harm -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile() -> Iterator[Cluster]:
    settings = {"message.max.bytes": "12000000"}
    with Cluster(1, topics={"hostile": 1, "big": 1, LONGEST: 1}, settings=settings) as cluster:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap, max_request_size=11_000_000) as producer:
            headers = [(SCRIPT, SCRIPT.encode()), (STRANGE, None)]
            producer.send("hostile", key=STRANGE.encode(), value=SCRIPT.encode(), headers=headers)
            producer.send("hostile", key=SCRIPT.encode(), value=STRANGE.encode())
            producer.send("big", key=b"k", value=SCRIPT.encode() + b"x" * 10_000_000)
        member = {"bootstrap_servers": cluster.bootstrap, "group_id": SCRIPT + STRANGE, "client_id": SCRIPT}
        with KafkaConsumer("hostile", **member) as consumer:
            while not consumer.assignment():
                consumer.poll(200)
            yield cluster


@contextmanager
def console(cluster: Cluster, port: int = 0) -> Iterator[str]:
    """`odradek console` beside it; its address."""
    command = [sys.executable, "-m", "odradek", "console", "--bootstrap", cluster.bootstrap, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("console ").strip()
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0


def test_hostile_contents_are_text_and_nothing_else(browser: Browser, hostile: Cluster) -> None:
    with console(hostile) as url:
        for viewport in (WIDE, NARROW):
            with tab(browser, url, viewport) as page:
                go(page, "#/topic/hostile")
                expect(page.locator(".record")).to_have_count(2)
                for line in page.locator(".record .line").all():
                    line.click()
                details = page.locator(".details")
                expect(details.last.locator("pre").nth(1)).to_have_text(SCRIPT)
                shown = "U+202Eevil wordsU+2066 with a bell \u2407, a U+200B between, an \u2400 and an \u241b[31m"
                expect(details.last.locator("pre").nth(0)).to_have_text(shown)
                expect(details.last.get_by_role("heading", name="Header")).to_have_count(2)
                assert fits(page)
                go(page, "#/topic/big")
                expect(page.locator(".record .line")).to_contain_text("<script>")
                page.locator(".record .line").click()
                expect(page.locator(".field", has_text="Value")).to_contain_text("text, 10 MB · cut")
                assert fits(page)
                go(page, f"#/topic/{LONGEST}")
                expect(page.locator("h1")).to_have_text(LONGEST)
                assert fits(page)
                go(page, "#/groups")
                page.locator(".row a", has_text="<script>").click()
                expect(page.locator("h1")).to_contain_text("onerror")
                expect(page.locator("tbody").first).to_contain_text("<script>")
                assert fits(page)
                go(page, "#/topic/" + "%3Cscript%3E")
                expect(page.locator(".said")).to_contain_text("<script>")
                assert page.locator("main script, main img").count() == 0


def test_the_page_comes_back_by_itself(browser: Browser, hostile: Cluster) -> None:
    context = browser.new_context()
    page = context.new_page()
    with console(hostile) as url:
        page.goto(url)
        expect(page.locator("#link")).to_have_text("live")
    expect(page.locator("#link")).to_have_text("reconnecting …")
    with console(hostile, int(url.partition("/#")[0].rpartition(":")[2])):
        expect(page.locator("#link")).to_have_text("live")
        hostile.stop(0)
        expect(page.locator("#link")).to_contain_text("the cluster does not answer")
        hostile.restart(0)
        expect(page.locator("#link")).to_have_text("live")
    context.close()


def test_dark_and_light_and_the_help(browser: Browser, hostile: Cluster) -> None:
    with console(hostile) as url:
        papers = []
        for scheme in ("light", "dark"):
            with tab(browser, url, color_scheme=scheme) as page:
                papers.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
                page.locator(".figures").wait_for()  # its programs run, and hear keys
                page.keyboard.press("?")
                expect(page.locator("#help")).to_be_visible()
                page.keyboard.press("Escape")
                expect(page.locator("#help")).not_to_be_visible()
        assert len(set(papers)) == 2


# -- size --------------------------------------------------------------------------------------------------------------


def test_of_ten_thousand_partitions_and_a_thousand_groups_only_what_is_in_sight_is_made(browser: Browser) -> None:
    """Which is why they are there at once; how soon depends on the machine, so that no test says it."""
    with LargeConsole() as url, tab(browser, url) as page:
        page.locator(".row.partition").first.wait_for()
        page.locator(".figures", has_text=f"{PARTITIONS:,} partitions").wait_for()
        assert page.locator(".row").count() < ROWS_MAX
        page.set_viewport_size(NARROW)
        assert fits(page)
        go(page, "#/groups")
        expect(page.locator(".figures")).to_contain_text("1,000 groups")
        expect(page.locator(".row").first).to_contain_text("7 behind")
        assert page.locator(".row").count() < ROWS_MAX
