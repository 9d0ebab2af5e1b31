"""The examples of `odradek mock` for other languages, as a user runs them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from odradek.testing.foreign.downloads import JVM_FLAGS, compiled
from odradek.testing.patience import PATIENCE_SECONDS

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "mock"


def run(command: Sequence[str], **environment: str) -> None:
    """With `odradek` on its path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        env={**os.environ, "PATH": path, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_node(kafkajs_folder: Path) -> None:
    run(["node", "--test", str(EXAMPLES / "orders.test.js")], NODE_PATH=str(kafkajs_folder / "node_modules"))


def test_java(java_classpath: str) -> None:
    classes = compiled(EXAMPLES / "OrdersTest.java", Path(java_classpath).parents[1], java_classpath)
    run(["java", *JVM_FLAGS, "-cp", f"{classes}{os.pathsep}{java_classpath}", "OrdersTest"])
