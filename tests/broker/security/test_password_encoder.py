"""Passwords among a broker's settings: as Kafka's EncryptingPasswordEncoder keeps them in ZooKeeper."""

import base64
import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.security.password_encoder import PasswordEncoder, StoredPasswords
from odradek.broker.settings.layers import Layers

KAFKAS = (
    "initializationVector:KpkiI+0W7xpvfsv6tWqhVg==,"
    "keyLength:128,"
    "salt:C1qxNH0tSpBtTaybjyToRS1h2PtHRw3jlgW3JSy13DiUeX67JhdNbgA9VGQrItQL09D8/togmVm7y5bRKgpGDQlhhoiruS6"
    "+lxtBXwT3tP2JebWcyFZ1zQk9Pn0cs+6iKursjWz/NQK0ddKrhuB1QQIgx+rxuggVqhpab4nWI9SWEBCkyLFEkQSGC/NSckdUsCj"
    "NrcFlWjZ7O2c/dYv+fE3dJMI5jjxBq5Z2A3p5NtzknF9lRgHcKAMKzEbv2ymhs8MoLN5+oLEIYyIGfBHjrzXAv2bef2ZUUMEyzJ/"
    "7culVL4GX6M8MOuOLYTzz7ptQ9pIKbEmio2ZYzYuaFoNbBg==,"
    "keyFactoryAlgorithm:PBKDF2WithHmacSHA512,"
    "cipherAlgorithm:AES/CBC/PKCS5Padding,"
    "iterations:4096,"
    "passwordLength:9,"
    "encryptedPassword:q1e/8PLNOW8yeRSuGntlmQ=="
)
"""Made by Kafka 3.9.1 of a password whose length Java counts otherwise than Python does."""
KEY = "listener.name.x.ssl.key.password"


def stored(**texts: str) -> StoredPasswords:
    return StoredPasswords.of(
        Layers({f"password.encoder.{name.replace('_', '.')}": text for name, text in texts.items()})
    )


def test_what_kafka_has_encrypted_is_read() -> None:
    assert PasswordEncoder("the secret").decode(KAFKAS) == "p\u00e4\u00df\U0001f600w\u00f6rd"


@settings(max_examples=20, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=70), st.sampled_from([128, 192, 256]))
def test_what_is_encrypted_is_read_again_and_never_the_same(password: str, bits: int) -> None:
    encoder = PasswordEncoder("secret", "PBKDF2WithHmacSHA256", bits, 1024)
    one, other = encoder.encode(password), encoder.encode(password)
    assert one != other
    assert PasswordEncoder("secret").decode(one) == PasswordEncoder("secret").decode(other) == password


@pytest.mark.parametrize(
    "text",
    ["", "password", KAFKAS[:-6], KAFKAS.replace("4096", "4097"), KAFKAS.replace("128", "64"),
     KAFKAS.replace("CBC", "GCM"), KAFKAS.replace("4096", "999999999"), KAFKAS.replace("Length:9", "Length:8")],
)  # fmt: skip
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"encrypted|supported|invalid literal") as caught:
        PasswordEncoder("the secret").decode(text)
    assert "w\u00f6rd" not in str(caught.value)
    with pytest.raises(ValueError, match="another secret"):
        PasswordEncoder("another secret").decode(KAFKAS)


@pytest.mark.parametrize("position", range(1, 16))
def test_each_byte_of_the_padding_is_looked_at(position: int) -> None:
    """Another secret makes bytes by chance: by the last one alone it would pass for the right one now and then."""
    encoder = PasswordEncoder("secret")

    def damaged(vector: re.Match[str]) -> str:
        data = bytearray(base64.b64decode(vector[1]))
        data[position] ^= 1  # the same bit of the one block that is decrypted
        return f"initializationVector:{base64.b64encode(data).decode()}"

    with pytest.raises(ValueError, match="another secret"):
        encoder.decode(re.sub("initializationVector:([^,]*)", damaged, encoder.encode("k")))


def test_a_new_secret_reads_what_the_one_before_has_encrypted() -> None:
    before = stored(secret="old").encrypted({KEY: "k", "log.retention.ms": "5"})
    assert before["log.retention.ms"] == "5" and before[KEY] != "k"
    assert stored(secret="old").decrypted(before) == ({KEY: "k", "log.retention.ms": "5"}, False)
    found, by_former = stored(secret="new", old_secret="old").decrypted(before)
    assert (found[KEY], by_former) == ("k", True)
    assert stored(secret="new").decrypted(stored(secret="new").encrypted(found))[0] == found


def test_without_a_secret_passwords_are_neither_kept_nor_read(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match="Password encoder secret not configured"):
        stored().encrypted({KEY: "k"})
    assert stored().encrypted({"log.retention.ms": "5"}) == {"log.retention.ms": "5"}
    with caplog.at_level(logging.ERROR):
        assert stored().decrypted({KEY: KAFKAS}) == ({}, False)
    assert KEY in caplog.text and "no secret" in caplog.text
    assert "secret" not in repr(PasswordEncoder("my secret")).lower()
