"""Values of settings that stand in files and in the environment, so that no file of settings has them."""

from pathlib import Path

import pytest

from odradek.broker.config import ConfigError, Given, read_config

PROVIDERS = {
    "zookeeper.connect": "z:2181",
    "broker.id": "0",
    "config.providers": "file,dir,env",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


def read(**settings: str) -> object:
    named = {**PROVIDERS, **{name.replace("_", "."): text for name, text in settings.items()}}
    config, remarks = read_config([Given(name, text, "server.properties:1") for name, text in named.items()])
    assert not [one for one in remarks if "providers" in one]
    return config.value("ssl.keystore.password")


def test_values_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets.properties").write_text("other=1\npass\\ word = hush=1\n")
    (tmp_path / "password").write_text("hush 2")
    monkeypatch.setenv("KEYSTORE_PASSWORD", "hush 3")
    assert read(ssl_keystore_password=f"${{file:{tmp_path}/secrets.properties:pass word}}") == "hush=1"
    assert read(ssl_keystore_password=f"${{dir:{tmp_path}:password}}") == "hush 2"
    assert read(ssl_keystore_password="<${env:KEYSTORE_PASSWORD}>") == "<hush 3>"
    assert read(ssl_keystore_password="${unknown:KEYSTORE_PASSWORD}") == "${unknown:KEYSTORE_PASSWORD}"


@pytest.mark.parametrize(
    ("setting", "text", "said"),
    [
        (
            "ssl_keystore_password",
            "${file:/nowhere/x:y}",
            r"properties:1: ssl\.keystore\.password: .*No such file",
        ),
        ("ssl_keystore_password", "${env:ODRADEK_SURELY_NOT_SET}", "there is no such value"),
        ("ssl_keystore_password", "${dir:/etc:../etc/hostname}", "there is no such value"),
        ("config_providers_env_class", "com.example.Vault", "is not one of FileConfigProvider"),
    ],
)
def test_values_that_are_not_there(setting: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(**{setting: text})


@pytest.mark.parametrize("reference", ["${{file:{0}/secret:password}}", "${{dir:{0}:secret}}"])
def test_a_file_that_is_no_text_is_named_without_what_is_in_it(tmp_path: Path, reference: str) -> None:
    (tmp_path / "secret").write_bytes("password=h\xe4sslich\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"properties:1: ssl\.keystore\.password: .*the file is no text in UTF-8$"):
        read(ssl_keystore_password=reference.format(tmp_path))
