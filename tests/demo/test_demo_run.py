"""The whole demo with a small share of the flights, piped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing.foreign.spark_home import spark_environment

RECORDS, RATE = 15_000, 5_000
PATIENCE_SECONDS = 1_500
"""It takes a minute alone, and ten times as long where ten things run at a time."""


@pytest.mark.cluster
@pytest.mark.timeout(PATIENCE_SECONDS + 20)
def test_the_demo_runs_counts_and_leaves_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (tmp_path / "spark").mkdir()
    command = [sys.executable, "-m", "odradek.demo", "--records", str(RECORDS), "--rate", str(RATE)]
    command += ["--chart", "chart.png"]
    done = subprocess.run(
        [*command, "--svg", str(tmp_path / "demo.svg")],
        env=os.environ | spark_environment(tmp_path / "spark") | {"TMPDIR": str(scratch)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    logs = "\n".join(f"{log}:\n{log.read_text()[-3000:]}" for log in scratch.rglob("pipeline.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    assert "SIGKILL broker" in done.stdout
    assert "✓ nothing lost, repeated or out of order" in done.stdout
    assert f"{RECORDS:,}   in the log" in done.stdout
    assert "✓ Spark's figures are the input's own" in done.stdout
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert done.stderr == ""
    assert list(scratch.iterdir()) == []
    svg = (tmp_path / "demo.svg").read_text()
    assert "<svg" in svg
    assert str(tmp_path) not in svg
