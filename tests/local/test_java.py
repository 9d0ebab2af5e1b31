"""Finding a Java and the jars, and saying in one line when there is none."""

import importlib.util
from pathlib import Path

import pytest

from odradek.local import java
from odradek.local.java import JARS, NoZooKeeper, find_jars, find_java, java_version


def fake_java(home: Path, version_line: str, *, release: bool) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version_line}"\n')
    return program


@pytest.mark.parametrize(
    ("line", "release", "version"),
    [
        ("17.0.15", True, 17),
        ("1.8.0_392", True, 8),
        ('openjdk version "21" 2023-09-19', False, 21),
        ('java version "1.8.0_1"', False, 8),
        ("nothing that is known", False, 0),
    ],
)
def test_versions(tmp_path: Path, line: str, release: bool, version: int) -> None:
    assert java_version(str(fake_java(tmp_path, line, release=release))) == version


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake_java(tmp_path, "17.0.1", release=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == str(program)


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path / "old", "11.0.2", release=True)
    new = fake_java(tmp_path / "new", "25", release=True)
    monkeypatch.setattr(java, "_candidates", lambda: [str(old), str(new)])
    assert find_java() == str(new)


def test_no_java_is_one_line_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path, "11.0.2", release=True)
    monkeypatch.setattr(java, "_candidates", lambda: [str(old)])
    with pytest.raises(NoZooKeeper) as caught:
        find_java()
    assert str(caught.value) == (
        f"the embedded ZooKeeper needs Java 17 or later ({old} is 11): "
        "pip install 'odradek[local]' brings one, or name a ZooKeeper of your own with --zookeeper"
    )


def test_the_jars_of_pyspark() -> None:
    names = [Path(jar).name for jar in find_jars()]
    assert len(names) == len(JARS)
    assert any(name.startswith("zookeeper-3.9") for name in names)


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoZooKeeper, match=r"pip install 'odradek\[local\]'"):
        find_jars()
