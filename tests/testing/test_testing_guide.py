"""The scenarios of docs/testing-with-odradek.md, and its exploration, each run as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

from odradek import KafkaConsumer, KafkaProducer
from odradek.testing import Cluster
from odradek.testing.exploration import Found

PAGE = Path(__file__).parents[2] / "docs" / "testing-with-odradek.md"
LINES_MAX = 25
SCENARIOS = re.findall(r"\*\*(.+?)\*\*\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("what", "code"), SCENARIOS, ids=[what.split(":")[0][:40] for what, _ in SCENARIOS])
def test_a_scenario_runs(cluster: Cluster, what: str, code: str) -> None:
    assert len(code.splitlines()) <= LINES_MAX
    exec(
        compile(code, f"{PAGE.name}: {what}", "exec"),
        {"cluster": cluster, "KafkaConsumer": KafkaConsumer, "KafkaProducer": KafkaProducer},
    )


def test_the_page_has_scenarios() -> None:
    assert len(SCENARIOS) == 10


def test_the_exploration_finds_the_mistake_that_the_page_tells_of() -> None:
    """It failed without any fault: a consumer began behind the orders, for it was not told where to."""
    [code] = [one for one in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "@explore" in one]
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, PAGE.name, "exec"), names)
    with pytest.raises(Found, match=r"never billed: .*\n.*\n  1\. the application is killed .*OffsetCommit"):
        names["test_every_order_is_billed"]()
