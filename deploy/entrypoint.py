"""Entry point of a container: one broker, with settings from a properties file and the environment.

/etc/odradek/server.properties, when it is mounted, else the server.properties beside this file; then every variable
KAFKA_NAME, named as in Kafka's own image (KAFKA_LOG_DIRS is log.dirs; two underscores are one, three are a hyphen);
then the lines key=value of ODRADEK_OVERRIDE. The last one to name a setting counts.
"""

import re
import signal
import sys
from collections.abc import Mapping
from os import _exit, environ
from pathlib import Path
from types import FrameType
from typing import NoReturn

MOUNTED = Path("/etc/odradek/server.properties")
OWN = Path(__file__).with_name("server.properties")
PREFIX = "KAFKA_"
OF_THE_JVM = frozenset(
    {
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)
"""Variables of Kafka's images that are no settings of the broker."""
REPLACEMENTS = {"_": ".", "__": "_", "___": "-"}


def properties_file() -> str:
    """Return the file to start from."""
    return str(MOUNTED if MOUNTED.exists() else OWN)


def overrides(variables: Mapping[str, str]) -> list[str]:
    """Return the settings that the environment gives, as key=value, the strongest last."""
    kafka = [name for name in sorted(variables) if name.startswith(PREFIX) and name not in OF_THE_JVM]
    lines = [line.strip() for line in variables.get("ODRADEK_OVERRIDE", "").splitlines()]
    return [f"{setting_name(name)}={variables[name]}" for name in kafka] + [line for line in lines if line]


def origins(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that has the say for each of these settings, for the broker's messages."""
    kafka = {setting_name(name): name for name in sorted(variables) if name.startswith(PREFIX)}
    lines = [line.partition("=")[0].strip() for line in variables.get("ODRADEK_OVERRIDE", "").splitlines()]
    return {**kafka, **dict.fromkeys(lines, "ODRADEK_OVERRIDE")}


def setting_name(variable: str) -> str:
    """Kafka's name of the setting: KAFKA_LOG_DIRS is log.dirs."""
    return re.sub("_{1,3}", lambda match: REPLACEMENTS[match[0]], variable.removeprefix(PREFIX).lower())


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    _exit(0)  # told to stop, it has: an exception would end somewhere within the loop that is just being made


def main() -> int:
    # The first process of a container ignores what it does not handle, and the broker handles it only once it runs.
    signal.signal(signal.SIGTERM, _leave)
    from odradek.broker.__main__ import main as run_broker

    arguments = [properties_file()]
    for one in overrides(environ):
        arguments += ["--override", one]
    return run_broker(arguments, origins(environ))


if __name__ == "__main__":
    sys.exit(main())
