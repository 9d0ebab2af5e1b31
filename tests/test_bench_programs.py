"""Programs of bench/, as far as nothing has to be measured for it."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent.parent / "bench"


def test_each_program_plays_the_tree_that_it_lies_in(tmp_path: Path) -> None:
    """Started without PYTHONPATH in a copy, it played whatever was installed, and did not say so."""
    for path in BENCH.glob("*.py"):
        imported = [
            name.partition(".")[0]
            for one in ast.walk(ast.parse(path.read_text()))
            if isinstance(one, ast.Import | ast.ImportFrom)
            for name in ([one.module or ""] if isinstance(one, ast.ImportFrom) else [alias.name for alias in one.names])
        ]
        if "odradek" in imported:
            assert "this_tree" in imported[: imported.index("odradek")], f"{path.name} plays what is installed"
    copy, named = tmp_path / "copy", tmp_path / "named"
    for tree in (copy, named):
        (tree / "odradek").mkdir(parents=True)
        (tree / "odradek" / "__init__.py").touch()
    (copy / "bench").mkdir()
    shutil.copy(BENCH / "this_tree.py", copy / "bench")
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import odradek; print(odradek.__file__)'])"
    (copy / "bench" / "program.py").write_text(
        f"import this_tree, odradek; print(odradek.__file__, flush=True)\n{child}\n"
    )
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    for given, played in ({}, copy), ({"PYTHONPATH": str(named)}, named):
        command = [sys.executable, str(copy / "bench" / "program.py")]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment | given, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [str(played / "odradek" / "__init__.py")] * 2
