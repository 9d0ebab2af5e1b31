"""The files of `odradek up --secure`, as they are found at a later start."""

from pathlib import Path

import pytest

from odradek.local.secure import SecureFiles
from odradek.security import authority


def test_a_brokers_certificate_that_soon_expires_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 825 days a cluster came up whose brokers and clients refused each other."""
    with monkeypatch.context() as old:
        old.setattr(authority, "DEFAULT_DAYS", 59)
        SecureFiles.make(tmp_path, 1)
    short = (tmp_path / "broker-0.pem").read_bytes()
    SecureFiles.make(tmp_path, 2)
    first = {path.name: path.read_bytes() for path in tmp_path.glob("*.pem")}
    assert first["broker-0.pem"] != short
    SecureFiles.make(tmp_path, 2)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.pem")} == first, "all are good for long"


def test_a_certificate_of_somebody_elses_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SecureFiles.make(tmp_path, 1)
    path = tmp_path / "broker-0.pem"
    with monkeypatch.context() as old:
        old.setattr(authority, "DEFAULT_DAYS", 1)
        pair = authority.Authority("Another").issue("broker-0", hosts=["localhost"])
    path.write_bytes(pair.chain_pem() + pair.key_pem())
    before = path.read_bytes()
    SecureFiles.make(tmp_path, 1)
    assert path.read_bytes() == before
