"""Spark as tests start it: its Python workers import the installed pyspark, and what it leaves lies in one folder."""

import importlib.util
import sys
from pathlib import Path

from odradek.testing.foreign.downloads import JVM_FLAGS
from odradek.testing.patience import PATIENCE_SECONDS

UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""Spark's fifteen thousand classes are believed: to check them is a tenth of its start."""
SPARK_JVM_FLAGS = {
    "SPARK_LAUNCHER_OPTS": " ".join(JVM_FLAGS),
    "SPARK_SUBMIT_OPTS": " ".join((*JVM_FLAGS, *UNVERIFIED, "-Dspark.python.authenticate.socketTimeout=150s")),
    "SPARK_AUTH_SOCKET_TIMEOUT": "150",
}
"""Environment of what starts Spark, for the same reason; and as much time as PATIENCE_SECONDS for its Python and
its Java to find each other, where Spark would give up after 15 s."""

QUERY_SECONDS = int(3 * PATIENCE_SECONDS)
"""How long a test waits for a query: it may start a JVM's worth of classes and two Python processes for each batch."""


def spark_environment(folder: Path) -> dict[str, str]:
    """Return SPARK_JVM_FLAGS with a home of Spark in `folder`, which takes all temporary files of the JVM too.

    Spark puts `python/lib/pyspark.zip` of its home before all else that its Python workers import from. Python keeps no
    bytecode of what is in an archive: each worker compiles pyspark anew, for a second of processor. This home consists
    of links to the installed one without that archive, so that workers find the same modules in site-packages. That
    needs the Python that runs now, also where the JVM itself looks for data sources.
    """
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None, "pyspark is not installed"
    home, temporary = folder / "home", folder / "temporary"
    home.mkdir()
    temporary.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(found.origin).parent / name)
    options = f"{SPARK_JVM_FLAGS['SPARK_SUBMIT_OPTS']} -Djava.io.tmpdir={temporary}"
    python = {"PYSPARK_DRIVER_PYTHON": sys.executable}
    return SPARK_JVM_FLAGS | python | {"SPARK_HOME": str(home), "SPARK_SUBMIT_OPTS": options}
