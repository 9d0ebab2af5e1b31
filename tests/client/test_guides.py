"""The guides for people who come from other clients: their examples run, and their tables are true."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.testing import Cluster
from odradek.testing.foreign import kafka_python_names as names

DOCS = Path(__file__).parents[2] / "docs"
TOPICS = dict.fromkeys(("foobar", "fizzbuzz", "txn_topic", "bills"), 1) | {"orders": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """One broker of this process, on a real socket."""
    settings = {"transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1}
    with Cluster(brokers=1, settings=settings, topics=TOPICS) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("page", "count"),
    [("from-kafka-python", 7), ("from-confluent-kafka", 5), ("asyncio", 5), ("transactions", 2)],
    ids=lambda one: str(one),
)
def test_the_examples_of_a_guide(cluster: Any, page: str, count: int) -> None:
    guide = (DOCS / f"{page}.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    assert len(examples) == count
    known: dict[str, Any] = {}
    for example in examples:
        here = example.replace("127.0.0.1:9092", cluster.bootstrap)
        exec(compile(here, f"docs/{page}.md", "exec"), known)


def test_the_table_of_kafka_pythons_names_is_that_of_the_installed_package() -> None:
    page = names.PAGE.read_text()
    assert page == names.rendered(page), "run: python -m odradek.testing.foreign.kafka_python_names"


def test_at_least_95_in_100_names_are_called_as_there() -> None:
    assert names.share() >= 0.95
    assert [row for row in names.rows() if row.verdict == "no" and not row.note] == [], "each has a reason"
    assert {row.name for row in names.rows() if row.verdict == "no"} == names.ABSENT.keys()


def test_calls_that_differ_are_seen() -> None:
    def theirs(first: int, second: int = 0) -> None: ...

    def same(first: int, second: int = 0, more: int = 1) -> None: ...

    def renamed(one: int, second: int = 0) -> None: ...

    def fewer(first: int) -> None: ...

    def needs_more(first: int, second: int, more: int) -> None: ...

    assert names.takes_the_same(theirs, same)
    assert not any(names.takes_the_same(theirs, other) for other in (renamed, fewer, needs_more, 5))
