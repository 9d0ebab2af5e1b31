"""Programs of bench/, as far as nothing has to be measured for it."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_of_kafkas_tests_only_those_may_fail_that_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(BENCH.parent))  # which the program is about to change
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("kafkas_tests", BENCH / "kafkas_tests.py")
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "kafkas_tests", program)
    spec.loader.exec_module(program)

    def case(name: str, run: str, inside: str = "") -> str:
        return (
            f'<testcase classname="kafka.api.OneTest" name="{name}(String)[1]">{inside}'
            f"<system-out>display-name: {run}\n</system-out></testcase>"
        )

    file = tmp_path / "report.xml"
    file.write_text(
        "<testsuite>"
        + case("testFine", "[1] quorum=zk")
        + case("testFine", "[2] quorum=kraft", '<error message="no"/>')
        + case("testFine", "testFine [3] Type=Raft-Isolated, MetadataVersion=3.9-IV0")
        + case("testLeft", "[1] quorum=zk", "<skipped/>")
        + case("testInside", "[1] quorum=zk", '<error message="a null"/>')
        + case("testThreads", "[1] quorum=zk", '<failure message="Found 1 unexpected threads during @AfterAll"/>')
        + case("testNotBegun", "[1] quorum=zk", '<failure message="Found 1 unexpected threads during @BeforeAll"/>')
        + "</testsuite>"
    )
    outcomes = list(program.read_outcomes(file))
    assert [(one.test, one.failure) for one in outcomes] == [
        ("OneTest.testFine", None),
        ("OneTest.testInside", "a null"),
        ("OneTest.testThreads", None),
        ("OneTest.testNotBegun", "Found 1 unexpected threads during @BeforeAll"),
    ]
    assert program.report(outcomes, {"OneTest.testI*": "looks inside", "OneTest.testN*": "comes late"}) == 0
    assert "as known: looks inside" in capsys.readouterr().out
    assert program.report(outcomes, {"OtherTest.*": "looks inside"}) == 1
    assert program.report([], {}) == 1, "nothing was run"
    assert all(reason for reason in program.known_differences().values())
