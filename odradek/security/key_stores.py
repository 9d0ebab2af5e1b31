"""Keys and certificates out of what Kafka's settings name: PEM files and texts, PKCS12, and JKS."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12PrivateKeyTypes

from odradek.security.errors import BadSecuritySetting
from odradek.security.jks import MAGIC, BadKeyStore, read_java_key_store

STORE_TYPES = ("JKS", "PKCS12", "PEM")
PEM = b"-----BEGIN "
"""Mark of PEM, whatever `ssl.keystore.type` says. The other types are told apart by their content, too."""
PKCS12_KEPT = 8
"""How many files' contents are kept: as in Java, no RSA key's primes are tested, which takes a quarter of a second with
4096 bits, and for PKCS12 alone that cannot be turned off."""
_BLANK_LINE = re.compile(rb"^[ \t\r]*\n", re.MULTILINE)
"""Line that Java passes over in PEM."""
STORE_BYTES_MAX = 16 * 1024 * 1024
"""Largest size of a key store: a larger file is refused."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key and the certificates that lead from it to an authority, its own first."""

    key: PKCS12PrivateKeyTypes
    chain: tuple[x509.Certificate, ...]

    def __repr__(self) -> str:
        return f"KeyPair({self.chain[0].subject.rfc4514_string()})"

    def key_pem(self, password: bytes | None = None) -> bytes:
        """Return the key as PEM (PKCS #8), encrypted where a password is given."""
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def chain_pem(self) -> bytes:
        """Return the certificates as PEM."""
        return b"".join(one.public_bytes(Encoding.PEM) for one in self.chain)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of one store: `what` is keystore or truststore, which the names of the settings begin with."""

    what: str
    type: str = "JKS"
    location: str | None = None
    password: str | None = None
    key_password: str | None = None
    key_location: str | None = None
    """A PEM file with the key, where `location` holds the certificates alone."""
    pem: tuple[str | None, str | None] = (None, None)
    """PEM texts instead of a file: of a key and its certificates, or of certificates and nothing."""

    def name(self, last: str) -> str:
        """Return Kafka's name of one of the settings."""
        return f"ssl.{self.what}.{last}"

    @property
    def is_set(self) -> bool:
        """Tell whether there is a store at all."""
        return self.location is not None or any(self.pem)

    def __repr__(self) -> str:
        return f"StoreSettings({self.what}, {self.type}, {self.location})"


def load_key_pair(store: StoreSettings) -> KeyPair:
    """Read the key and certificates that a server or a client presents. Raises BadSecuritySetting."""
    _check(store)
    if store.pem[0] is not None or store.pem[1] is not None:
        key_text, chain_text = store.pem
        if key_text is None or chain_text is None:
            raise BadSecuritySetting(store.name("key"), "goes together with ssl.keystore.certificate.chain: set both")
        return _pem_key_pair(store, store.name("key"), key_text.encode(), chain_text.encode())
    data = _content(store)
    if store.key_location is not None:
        of_key = replace(store, location=store.key_location)
        return _pem_key_pair(of_key, "ssl.key.location", _content(of_key), data)
    if store.type == "PEM" or PEM in data:
        return _pem_key_pair(store, store.name("location"), data, data)
    found = _java_key_pair(store, data) if data.startswith(MAGIC) else _pkcs12_key_pair(store, data)
    if found is None:
        raise BadSecuritySetting(store.name("location"), f"{store.location} holds no private key")
    return found


def load_trusted(store: StoreSettings) -> list[x509.Certificate]:
    """Read the trusted certificates: as in Java, that of a key is one, too. Raises BadSecuritySetting."""
    _check(store)
    if store.pem[0] is not None:
        return _pem_certificates(store, store.name("certificates"), store.pem[0].encode())
    data = _content(store)
    where = store.name("location")
    if store.type == "PEM" or PEM in data:
        return _pem_certificates(store, where, data)
    try:
        if data.startswith(MAGIC):
            java = read_java_key_store(data, store.password)
            of_keys = [one for entry in java.keys for one in entry.chain[:1]]
            found = [x509.load_der_x509_certificate(one) for one in (*of_keys, *java.trusted)]
        else:
            content = _pkcs12(data, _bytes(store.password))
            of_key = [] if content.cert is None else [content.cert]
            found = [one.certificate for one in (*of_key, *content.additional_certs)]
    except (BadKeyStore, ValueError) as error:
        raise BadSecuritySetting(where, f"{store.location}: {_words(error)}") from None
    if not found:
        raise BadSecuritySetting(where, f"{store.location} holds no trusted certificate")
    return found


def alternative_names(certificate: x509.Certificate) -> set[x509.GeneralName]:
    """Return the names and addresses that a certificate is for, beside its subject; none where they are of a kind, or
    written in a way, that cannot be read."""
    try:
        return set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (x509.ExtensionNotFound, x509.UnsupportedGeneralNameType, ValueError):
        return set()


def _check(store: StoreSettings) -> None:
    if store.type not in STORE_TYPES:
        raise BadSecuritySetting(store.name("type"), f"{store.type} cannot be read: {', '.join(STORE_TYPES)} can")
    if any(store.pem) and store.type != "PEM":
        raise BadSecuritySetting(store.name("type"), f"must be PEM where PEM texts are given, not {store.type}")
    if any(store.pem) and store.location is not None:
        raise BadSecuritySetting(store.name("location"), "must not be set where PEM texts are given")


def _content(store: StoreSettings) -> bytes:
    name = store.name("location")
    if store.location is None:
        raise BadSecuritySetting(name, "is not set")
    try:
        with Path(store.location).open("rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise BadSecuritySetting(name, f"{store.location}: {error.strerror}") from None
    if len(data) > STORE_BYTES_MAX:
        raise BadSecuritySetting(name, f"{store.location} is larger than {STORE_BYTES_MAX} bytes")
    return data


def _pem_key_pair(store: StoreSettings, name: str, key_pem: bytes, chain_pem: bytes) -> KeyPair:
    try:
        key = load_pem_private_key(
            _private_part(key_pem), _bytes(store.key_password), unsafe_skip_rsa_key_validation=True
        )
    except (ValueError, TypeError) as error:
        words = _words(error)
        if "password" in words.lower():
            words = f"{words} (ssl.key.password)"
        raise BadSecuritySetting(name, f"{_file(store)}no private key could be read: {words}") from None
    return KeyPair(key, tuple(_pem_certificates(store, name, chain_pem)))  # type: ignore[arg-type]


def _private_part(pem: bytes) -> bytes:
    """Return the text from the first private key on: certificates may come before it."""
    at = pem.find(b"PRIVATE KEY-----")
    start = pem.rfind(b"-----BEGIN", 0, max(at, 0))
    part = pem[start:] if start >= 0 else pem
    return part if b"DEK-Info:" in part else _BLANK_LINE.sub(b"", part)  # there one comes between headers and key


def _pem_certificates(store: StoreSettings, name: str, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_BLANK_LINE.sub(b"", pem))
    except ValueError as error:
        raise BadSecuritySetting(name, f"{_file(store)}no certificate could be read: {_words(error)}") from None


def _file(store: StoreSettings) -> str:
    """Return how a message names the file that was read; nothing where the text stands in the settings."""
    return "" if store.location is None else f"{store.location}: "


def _java_key_pair(store: StoreSettings, data: bytes) -> KeyPair | None:
    if store.password is None:
        raise BadSecuritySetting(store.name("password"), "is needed to read a key from a JKS file")
    try:
        keys = read_java_key_store(data, store.password).keys
        if not keys:
            return None
        chain = tuple(x509.load_der_x509_certificate(one) for one in keys[0].chain)
        key = keys[0].key(store.password if store.key_password is None else store.key_password)
        made = load_der_private_key(key, None, unsafe_skip_rsa_key_validation=True)
        return KeyPair(made, chain)  # type: ignore[arg-type]
    except (BadKeyStore, ValueError) as error:
        raise BadSecuritySetting(store.name("location"), f"{store.location}: {_words(error)}") from None


def _pkcs12_key_pair(store: StoreSettings, data: bytes) -> KeyPair | None:
    try:
        content = _pkcs12(data, _bytes(store.password))
    except ValueError as error:
        raise BadSecuritySetting(store.name("location"), f"{store.location}: {_words(error)}") from None
    if content.key is None or content.cert is None:
        return None
    chain = (content.cert.certificate, *(one.certificate for one in content.additional_certs))
    return KeyPair(content.key, chain)  # type: ignore[arg-type]


@lru_cache(maxsize=PKCS12_KEPT)
def _pkcs12(data: bytes, password: bytes | None) -> pkcs12.PKCS12KeyAndCertificates:
    """Read a PKCS12 file's content. Raises ValueError."""
    return pkcs12.load_pkcs12(data, password)


def _bytes(password: str | None) -> bytes | None:
    return None if password is None else password.encode()


def _words(error: Exception) -> str:
    """Return the library's words, without its page of questions and answers, which is for programmers, and without
    what it quotes, which may be a line of a private key."""
    said = re.sub(r"\. See https?://\S+ for more details\.( \w+)?", "", str(error).split("\n", 1)[0])
    return re.sub(r'\("[^"]*"\)', "", said)[:200] or type(error).__name__
