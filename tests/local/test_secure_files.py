"""The files of `odradek up --secure`, as they are found at a later start."""

import contextlib
import threading
from pathlib import Path

import pytest

from odradek.local import secure
from odradek.local.secure import SecureFiles
from odradek.security import authority
from odradek.security.key_stores import KeyPair


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


def test_two_that_start_at_once_make_one_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers of a folder with the files of both refused each other, also at each later start."""
    both = threading.Barrier(2, timeout=0.2)

    def made(pair: KeyPair | None = None) -> authority.Authority:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait()
        return authority.Authority(pair=pair)

    monkeypatch.setattr(secure, "Authority", made)
    threads = [threading.Thread(target=SecureFiles.make, args=(tmp_path, 2)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        assert (tmp_path / "ca.pem").read_text() in (tmp_path / f"broker-{number}.pem").read_text()
