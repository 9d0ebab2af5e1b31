"""The properties files that `odradek up` writes, as their readers read them."""

from pathlib import Path

from odradek.broker.config import load_config
from odradek.broker.settings.properties import parse_properties
from odradek.local.broker_files import BrokerFile
from odradek.local.secure import SecureFiles

RULES = r"RULE:^CN=(.*?)\.example\.com$/$1/"


def test_a_broker_gets_an_override_as_it_was_given(tmp_path: Path) -> None:
    """Backslashes were lost: each dot of such a rule fitted any character."""
    folder = tmp_path / r"a\b"
    file = BrokerFile(0, 9092, 1, "127.0.0.1:2181", folder, {"ssl.principal.mapping.rules": RULES})
    file.write()
    config = load_config(str(file.path))
    assert config.value("ssl.principal.mapping.rules") == RULES
    assert config.log_dirs == (str(folder / "data" / "broker-0"),)


def test_a_client_finds_the_files_of_a_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / r"a\b"
    SecureFiles.make(folder, 1)
    read = {one.key: one.value for one in parse_properties((folder / "client.properties").read_text())}
    assert Path(read["ssl.truststore.location"]).is_file()
