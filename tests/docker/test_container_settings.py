"""How the environment of a container becomes a broker's settings; needs no engine."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from odradek.broker.config import ConfigError, load_config

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module")
def entrypoint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("entrypoint", DEPLOY / "entrypoint.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS", "zookeeper.session.timeout.ms"),
        ("KAFKA_LISTENER_NAME_IN__SIDE_X", "listener.name.in_side.x"),
        ("KAFKA_A___B", "a-b"),
    ],
)
def test_names(entrypoint: ModuleType, variable: str, setting: str) -> None:
    assert entrypoint.setting_name(variable) == setting


def test_what_is_wrong_is_told_by_the_name_of_the_variable(entrypoint: ModuleType) -> None:
    """It was `--override: broker.id=abc`, which nobody had written."""
    variables = {"KAFKA_BROKER_ID": "abc", "KAFKA_NUM_PARTITIONS": "2", "ODRADEK_OVERRIDE": " num.partitions = x"}
    for left_out, said in (("", "KAFKA_BROKER_ID: broker.id=abc"), ("KAFKA_BROKER_ID", "ODRADEK_OVERRIDE: num.part")):
        given = {name: text for name, text in variables.items() if name != left_out}
        with pytest.raises(ConfigError, match=f"^{said}"):
            load_config(
                str(DEPLOY / "server.properties"), entrypoint.overrides(given), origins=entrypoint.origins(given)
            )


def test_the_strongest_comes_last(entrypoint: ModuleType) -> None:
    variables = {
        "ODRADEK_OVERRIDE": "num.partitions=3\n\n  message.max.bytes = 5 \n",
        "KAFKA_NUM_PARTITIONS": "2",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "PATH": "/bin",
    }
    found = entrypoint.overrides(variables)
    assert found == ["num.partitions=2", "num.partitions=3", "message.max.bytes = 5"]
    config = load_config(str(DEPLOY / "server.properties"), found)
    assert (config.num_partitions, config.message_max_bytes) == (3, 5)
    assert config.log_dirs == ("/var/lib/odradek",)
    assert [listener.port for listener in config.listeners] == [9092]
