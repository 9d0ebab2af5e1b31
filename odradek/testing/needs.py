"""The programs that tests take from the machine, how one gets them, and what happens where one is missing.

A test whose program is missing is skipped; where the program is required it fails. ODRADEK_REQUIRE names what is
required, with commas between, or `all`, which is what it is where CI is set. `python -m odradek.testing.needs` says
what is missing.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import pytest

from odradek.testing.foreign import kerberos

NOT_REQUIRED = "missing and not required"
CANNOT_BE_HAD = "cannot be had: "
"""How the reason of a skip begins that fails nowhere: a registry that does not answer, a mount that is forbidden."""


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def _command(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


PROGRAMS: Mapping[str, tuple[str, Callable[[], bool]]] = {
    "java": ("a JDK of version 17 or newer", _command("java")),
    "mvn": ("the package maven", _command("mvn")),
    "node": ("the package nodejs", _command("node")),
    "npm": ("the package npm", _command("npm")),
    "kcat": ("the package kcat", _command("kcat")),
    "chromium": ("the package chromium", _command("chromium")),
    "prometheus": ("the package prometheus", _command("prometheus")),
    "promtool": ("the package prometheus", _command("promtool")),
    "systemd-analyze": ("the package systemd", _command("systemd-analyze")),
    "kerberos": ("the packages krb5-kdc, krb5-admin-server, krb5-user and gssapi (python3-gssapi)", kerberos.is_here),
    "sasl-gssapi": ("the package libsasl2-modules-gssapi-mit", kerberos.is_in_sasl),
    "docker": ("a Docker engine that answers, with Compose v2", _docker_answers),
}
"""What tests need beside Python, by name: how one gets it, and a function that tells whether it is here."""


RUNTIMES: Mapping[str, Sequence[str]] = {"kcat": ("kcat",), "kafkajs": ("node", "npm"), "java": ("java", "mvn")}
"""What clients that are no Python need to run, and to be fetched."""


def is_required(program: str) -> bool:
    """Tell whether a test may not be skipped for want of it."""
    required = os.environ.get("ODRADEK_REQUIRE", "all" if os.environ.get("CI") else "")
    return required == "all" or program in required.split(",")


def allows_skip(reason: str) -> bool:
    """Tell whether a test may be skipped for this reason: for any, unless somebody has said what is required."""
    said = os.environ.get("ODRADEK_REQUIRE") or os.environ.get("CI")
    return not said or NOT_REQUIRED in reason or CANNOT_BE_HAD in reason


def lacking(*programs: str) -> list[str]:
    """List the programs that are missing and not required: without these a test may go on with what there is."""
    return [name for name in programs if not is_required(name) and not PROGRAMS[name][1]()]


def need(*programs: str) -> None:
    """Skip the test when one of them is missing, or fail it when that one is required."""
    for name in programs:
        how, is_here = PROGRAMS[name]
        if is_here():
            continue
        if is_required(name):
            pytest.fail(f"{name} is missing and required: get {how}")
        pytest.skip(f"{name} is {NOT_REQUIRED}: get {how}")


def main() -> int:
    missing = [f"{name} ({how})" for name, (how, is_here) in PROGRAMS.items() if not is_here()]
    if missing:
        print(f"Tests that need these will be skipped: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
