"""The units: systemd's own tool has nothing against them, and says that little of the machine is open to them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing.needs import need

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
EXPOSURE = 15
"""Tenths, of 100: the network, AF_UNIX and the system calls of niced children are needed."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder of units whose programs are there."""
    need("systemd-analyze")
    folder = tmp_path / "units"
    shutil.copytree(FOLDER, folder)
    for unit in folder.glob("*.service"):
        text = unit.read_text().replace("/opt/odradek/bin/odradek", sys.executable)
        unit.write_text(text.replace("/usr/bin/java", sys.executable))
    return folder


def analyze(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"SYSTEMD_UNIT_PATH": f"{folder}:", "PATH": "/usr/bin:/bin"}
    command = ["systemd-analyze", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_units_are_as_systemd_wants_them(installed: Path) -> None:
    paths = [str(path) for path in (*installed.glob("*.service"), *installed.glob("*.timer"))]
    done = analyze(installed, "verify", "--man=no", *paths)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    unit = installed / UNITS[0]
    unit.write_text(unit.read_text().replace("[Service]", "[Service]\nRestartt=yes"))
    assert "Restartt" in analyze(installed, "verify", "--man=no", str(unit)).stderr, "what is wrong would be said"


@pytest.mark.parametrize("unit", UNITS)
def test_little_is_open_to_a_unit(installed: Path, unit: str) -> None:
    arguments = ["security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager"]
    done = analyze(installed, *arguments, str(installed / unit))
    assert done.returncode == 0, done.stdout
    shutil.rmtree(installed / "odradek-.service.d")
    assert analyze(installed, *arguments, str(installed / unit)).returncode, "the hardening is what does it"


def test_every_file_has_its_place_in_the_guide() -> None:
    text = (FOLDER.parent / "README.md").read_text().partition("## systemd")[2]
    named = set(re.findall(r"\]\(systemd/([^)]+)\)", text))
    assert named == {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}


def test_all_run_as_the_user_that_is_made() -> None:
    (user,) = re.findall(r"^u (\w+)", (FOLDER / "odradek.sysusers").read_text(), re.MULTILINE)
    for unit in UNITS:
        assert unit.startswith("odradek-"), "else the drop-in does not hold for it"
        assert f"User={user}\nGroup={user}\n" in (FOLDER / unit).read_text()
