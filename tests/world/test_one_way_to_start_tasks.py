"""Nothing starts a task but `odradek.world.tasks`: what dies elsewhere dies in silence."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("broker", "controller", "zk_schema", "client", *(f"odradek/{name}" for name in (
    "world", "local", "cli", "console", "demo", "diagnosis", "pipeline", "security",
)))  # fmt: skip
STARTERS = {"create_task", "ensure_future", "TaskGroup"}
THE_ONE_WAY = "odradek/world/tasks.py"


def starts_tasks(source: str) -> bool:
    """Whether a call in it starts a task, by whatever name the function was imported."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "asyncio"
        for alias in node.names
        if alias.name in STARTERS
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute) and called.attr in STARTERS:
                return True
            if isinstance(called, ast.Name) and called.id in names:
                return True
    return False


def test_tasks_are_started_in_one_way() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if starts_tasks(path.read_text())
    }
    assert found == {THE_ONE_WAY}


@pytest.mark.parametrize(
    "line",
    [
        "asyncio.create_task(work())",
        "loop.create_task(work())",
        "asyncio.get_running_loop().create_task(work())",
        "task = asyncio.ensure_future(work())",
        "from asyncio import create_task as start; start(work())",
        "async def f():\n    async with asyncio.TaskGroup() as group: pass",
    ],
)
def test_every_way_to_start_one_is_seen(line: str) -> None:
    assert starts_tasks(line)


def test_other_calls_are_let_pass() -> None:
    assert not starts_tasks("tasks.spawn('name', work, OnDeath.END); asyncio.Event(); self.task.cancel()")
