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


def test_a_provider_without_its_class() -> None:
    """It was a traceback."""
    said = r"properties:1: config\.providers: vault needs config\.providers\.vault\.class: one of FileConfigProvider"
    with pytest.raises(ConfigError, match=said):
        read(config_providers="file,vault")


@pytest.mark.parametrize("reference", ["${{file:{0}/secret:password}}", "${{dir:{0}:secret}}"])
def test_a_file_that_is_no_text_is_named_without_what_is_in_it(tmp_path: Path, reference: str) -> None:
    (tmp_path / "secret").write_bytes("password=h\xe4sslich\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"properties:1: ssl\.keystore\.password: .*the file is no text in UTF-8$"):
        read(ssl_keystore_password=reference.format(tmp_path))


@pytest.mark.parametrize(
    ("setting", "reference"),
    [
        ("file.param.allowed.paths", "${{file:{0}/other/secret:password}}"),
        ("file.param.allowed.paths", "${{file:{0}/secrets/../other/secret:password}}"),
        ("file.param.allowed.paths", "${{file:other/secret:password}}"),
        ("dir.param.allowed.paths", "${{dir:{0}/other:secret}}"),
        ("dir.param.allowed.paths", "${{dir:{0}/secrets-too:secret}}"),
    ],
)
def test_a_provider_reads_only_where_it_is_allowed_to(tmp_path: Path, setting: str, reference: str) -> None:
    for name in ("secrets", "secrets-too", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_text("password=hush")
    named = {f"config_providers_{setting}": f"{tmp_path}/secrets"}
    allowed = "${{file:{0}/secrets/secret:password}}" if "file" in setting else "${{dir:{0}/secrets:secret}}"
    assert str(read(**named, ssl_keystore_password=allowed.format(tmp_path))).endswith("hush")
    with pytest.raises(ConfigError, match=rf"config\.providers\.{setting} does not allow the path"):
        read(**named, ssl_keystore_password=reference.format(tmp_path))


def test_a_provider_reads_only_the_variables_it_is_allowed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYSTORE_PASSWORD", "hush")
    setting = "config.providers.env.param.allowlist.pattern"
    assert read(**{setting: "KEY.*", "ssl_keystore_password": "${env:KEYSTORE_PASSWORD}"}) == "hush"
    with pytest.raises(ConfigError, match="does not allow the variable"):
        read(**{setting: "KEY", "ssl_keystore_password": "${env:KEYSTORE_PASSWORD}"})


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("file.param.allowed.paths", "secrets", "secrets is not an absolute path"),
        ("dir.param.allowed.paths", "/,/nowhere/at/all", "/nowhere/at/all does not exist"),
        ("env.param.allowlist.pattern", "(", "is no regular expression"),
    ],
)
def test_what_a_provider_is_allowed_is_checked(setting: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(**{f"config_providers_{setting}": value})
