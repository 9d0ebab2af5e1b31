"""The scenarios of docs/testing-with-odradek.md, each run as it stands there."""

import re
from pathlib import Path

import pytest

from odradek import KafkaConsumer, KafkaProducer
from odradek.testing import Cluster

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
