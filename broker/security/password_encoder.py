"""Passwords in dynamic settings: encrypted as Kafka keeps them in ZooKeeper (KIP-226).

    keyLength:128,salt:…,encryptedPassword:…,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,passwordLength:6,…

The key is derived from `password.encoder.secret` by PBKDF2, with another salt for each password. Source:
EncryptingPasswordEncoder and DynamicBrokerConfig of Kafka 3.9.
"""

import base64
import binascii
import hashlib
import logging
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from odradek.broker.settings.catalog import known_setting
from odradek.broker.settings.layers import Layers

log = logging.getLogger(__name__)

CIPHER: Final = "AES/CBC/PKCS5Padding"
KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
DIGESTS: Final = {f"PBKDF2WithHmacSHA{digits}": f"sha{digits}" for digits in (1, 224, 256, 384, 512)}
"""Java's names of key factories to names of digests."""
SALT_BYTES: Final = 256
BLOCK_BYTES: Final = 16
KEY_BITS: Final = (128, 192, 256)
ITERATIONS_MAX: Final = 1_000_000
"""Most iterations for a key: more would hold up the broker."""


@dataclass(frozen=True, slots=True)
class PasswordEncoder:
    """A secret, and how new passwords are encrypted with it."""

    secret: str
    key_factory: str = KEY_FACTORY
    key_bits: int = 128
    iterations: int = 4096

    def __repr__(self) -> str:
        return "PasswordEncoder()"

    def encode(self, password: str) -> str:
        """Encrypt a password. Raises ValueError for settings that cannot be obeyed."""
        salt, vector = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(BLOCK_BYTES)
        encryptor = _cipher(self._key(self.key_factory, salt, self.iterations, self.key_bits), vector).encryptor()
        padder = _padding().padder()
        padded = padder.update(password.encode()) + padder.finalize()
        encrypted = encryptor.update(padded) + encryptor.finalize()
        parts = {
            "keyFactoryAlgorithm": self.key_factory,
            "cipherAlgorithm": CIPHER,
            "keyLength": str(self.key_bits),
            "salt": _b64(salt),
            "iterations": str(self.iterations),
            "encryptedPassword": _b64(encrypted),
            "passwordLength": str(_length(password)),
            "initializationVector": _b64(vector),
        }
        return ",".join(f"{name}:{text}" for name, text in parts.items())

    def decode(self, text: str) -> str:
        """Decrypt a password. Raises ValueError, which shows nothing of it."""
        parts = dict(part.partition(":")[::2] for part in text.split(","))
        try:
            if parts["cipherAlgorithm"] != CIPHER:
                raise ValueError(f"encrypted with {parts['cipherAlgorithm']}, {CIPHER} is built")
            key = self._key(
                parts.get("keyFactoryAlgorithm", KEY_FACTORY),
                _unb64(parts["salt"]),
                int(parts["iterations"]),
                int(parts["keyLength"]),
            )
            decryptor = _cipher(key, _unb64(parts["initializationVector"])).decryptor()
            padded = decryptor.update(_unb64(parts["encryptedPassword"])) + decryptor.finalize()
            password = _unpadded(padded).decode()
            if _length(password) != int(parts["passwordLength"]):
                raise ValueError("it was encrypted with another secret")
        except (KeyError, UnicodeDecodeError, binascii.Error):
            raise ValueError("it was encrypted with another secret, or it is not an encrypted password") from None
        return password

    def _key(self, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
        if factory not in DIGESTS or bits not in KEY_BITS or not 1 <= iterations <= ITERATIONS_MAX:
            raise ValueError(f"{factory} with {iterations} rounds and {bits} bits is not supported")
        return hashlib.pbkdf2_hmac(DIGESTS[factory], self.secret.encode(), salt, iterations, bits // 8)


@dataclass(frozen=True, slots=True)
class StoredPasswords:
    """The passwords among a broker's settings in ZooKeeper."""

    encoder: PasswordEncoder | None
    """Encoder with the present secret; None: no password can be kept."""
    former: PasswordEncoder | None = None
    """Encoder with the secret from before."""

    @classmethod
    def of(cls, layers: Layers) -> "StoredPasswords":
        """Make an encoder with the broker's `password.encoder.` settings."""

        def encoder(name: str) -> PasswordEncoder | None:
            secret: Any = layers.value(name)
            if not secret:
                return None
            factory: Any = layers.value("password.encoder.keyfactory.algorithm")
            bits: Any = layers.value("password.encoder.key.length")
            iterations: Any = layers.value("password.encoder.iterations")
            return PasswordEncoder(secret, factory or KEY_FACTORY, bits, iterations)

        return cls(encoder("password.encoder.secret"), encoder("password.encoder.old.secret"))

    def encrypted(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings with their passwords encrypted. Raises ValueError where there is no secret."""
        found = dict(settings)
        for name in filter(_is_password, settings):
            if self.encoder is None:
                raise ValueError("Password encoder secret not configured")
            found[name] = self.encoder.encode(settings[name])
        return found

    def decrypted(self, settings: Mapping[str, str]) -> tuple[dict[str, str], bool]:
        """Return the settings with their passwords, without those that cannot be read; and whether the secret from
        before was needed, so that they should be written anew."""
        found, by_former = dict(settings), False
        for name in filter(_is_password, settings):
            try:
                found[name], takes_former = self._decrypted(settings[name])
                by_former |= takes_former
            except ValueError as error:
                del found[name]
                log.error("%s cannot be read and is treated as not set: %s", name, error)
        return found, by_former

    def renewed(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings as they are stored, with those passwords encrypted anew for which the secret from before
        is needed. One that cannot be read stays as it is: somebody may still know its secret."""
        found = dict(settings)
        for name in filter(_is_password, settings):
            with suppress(ValueError):
                password, takes_former = self._decrypted(settings[name])
                if takes_former:
                    found |= self.encrypted({name: password})
        return found

    def _decrypted(self, text: str) -> tuple[str, bool]:
        """Return a password, and whether the secret from before was needed. Raises ValueError."""
        if self.encoder is not None:
            try:
                return self.encoder.decode(text), False
            except ValueError:
                if self.former is None:
                    raise
        if self.former is None:
            raise ValueError("no secret")
        return self.former.decode(text), True


def _is_password(name: str) -> bool:
    setting = known_setting(name)
    return setting is not None and setting.is_sensitive


def _cipher(key: bytes, vector: bytes) -> Any:
    """Make an AES-CBC cipher; its library is imported here, since a broker without passwords does not need it."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CBC

    return Cipher(AES(key), CBC(vector))


def _padding() -> Any:
    from cryptography.hazmat.primitives.padding import PKCS7

    return PKCS7(BLOCK_BYTES * 8)  # what Java calls PKCS5Padding


def _unpadded(data: bytes) -> bytes:
    """Take the padding away. Raises ValueError unless each of its bytes is right: if only the last one were looked at,
    another secret would seem to be right for one password in hundreds."""
    unpadder = _padding().unpadder()
    try:
        return bytes(unpadder.update(data) + unpadder.finalize())
    except ValueError:
        raise ValueError("it was encrypted with another secret") from None


def _length(password: str) -> int:
    """Return the length of a text as Java counts it, in UTF-16 code units."""
    return len(password.encode("utf-16-le")) // 2


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _unb64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
