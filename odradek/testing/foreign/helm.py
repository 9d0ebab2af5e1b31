"""Helm itself, as a library from Maven Central: `helm template` and `helm lint` without the program.

It runs in a process of its own, because a Go program takes over the signals of the one it is loaded into.
"""

import ctypes
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from odradek.testing.foreign.downloads import COPY_JARS, fetch
from odradek.testing.patience import PATIENCE_SECONDS

VERSION = "0.0.21"
"""Version of com.marcnuri.helm-java, which has Helm 3.21."""
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>odradek</groupId><artifactId>helm</artifactId><version>1</version>
<dependencies>
<dependency><groupId>com.marcnuri.helm-java</groupId><artifactId>linux-amd64</artifactId><version>{VERSION}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
</dependencies></project>"""
LIBRARY = "helm-linux-amd64.so"
TEXT, FLAG = ctypes.c_char_p, ctypes.c_int


class TemplateOptions(ctypes.Structure):
    """Options of `helm template`, as the library's header has them."""

    _fields_ = (
        ("name", TEXT),
        ("version", TEXT),
        ("chart", TEXT),
        ("namespace", TEXT),
        ("kubeVersion", TEXT),
        ("dependencyUpdate", FLAG),
        ("skipCRDs", FLAG),
        ("values", TEXT),
        ("setFiles", TEXT),
        ("valuesFiles", TEXT),
        ("certFile", TEXT),
        ("keyFile", TEXT),
        ("caFile", TEXT),
        ("insecureSkipTlsVerify", FLAG),
        ("plainHttp", FLAG),
        ("keyring", TEXT),
        ("debug", FLAG),
        ("repositoryConfig", TEXT),
    )


class LintOptions(ctypes.Structure):
    """Options of `helm lint`."""

    _fields_ = (("path", TEXT), ("strict", FLAG), ("quiet", FLAG))


class Result(ctypes.Structure):
    """Answer of the library; `err` is there when it refused."""

    _fields_ = (("out", TEXT), ("err", TEXT), ("stdOut", TEXT), ("stdErr", TEXT))


class HelmRefuses(Exception):  # noqa: N818 - says what it is
    """Error of Helm: it does not take a chart, or its values."""


class Helm:
    """Helm in `directory`, which keeps it."""

    def __init__(self, directory: Path) -> None:
        """Fetch it the first time. Raises DownloadFailed."""
        self._library = fetch(directory, "pom.xml", POM, COPY_JARS) / LIBRARY
        if not self._library.exists():
            (jar,) = (directory / "jars").glob("linux-amd64-*.jar")
            with zipfile.ZipFile(jar) as archive:
                beside = self._library.with_suffix(".part")
                beside.write_bytes(archive.read(LIBRARY))
                beside.rename(self._library)

    def template(self, chart: Path, values: Path, *, release: str = "odradek", namespace: str = "kafka") -> str:
        """Render a chart with a file of values. Raises HelmRefuses."""
        return self._ask(
            "Template",
            chart=str(chart),
            name=release,
            namespace=namespace,
            valuesFiles=str(values),
            kubeVersion="1.37.0",
        )

    def lint(self, chart: Path) -> str:
        """Return what `helm lint --strict` says. Raises HelmRefuses."""
        said = self._ask("Lint", path=str(chart), strict=1)
        if "Failed: true" in said:
            raise HelmRefuses(said)
        return said

    def _ask(self, function: str, **options: Any) -> str:
        command = [sys.executable, "-m", "odradek.testing.foreign.helm", str(self._library), function]
        done = subprocess.run(
            command,
            input=json.dumps(options),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        if answer["err"]:
            raise HelmRefuses(answer["err"])
        return str(answer["out"])


def main() -> None:
    """Load the library, ask it once, and print the answer."""
    library = ctypes.CDLL(sys.argv[1])
    function = getattr(library, sys.argv[2])
    kind = {"Template": TemplateOptions, "Lint": LintOptions}[sys.argv[2]]
    function.argtypes, function.restype = [ctypes.POINTER(kind)], Result
    given = {name: one.encode() if isinstance(one, str) else one for name, one in json.load(sys.stdin).items()}
    result = function(ctypes.byref(kind(**given)))
    print(json.dumps({"out": (result.out or b"").decode(), "err": (result.err or b"").decode()}))


if __name__ == "__main__":
    main()
