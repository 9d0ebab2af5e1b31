"""Java's own key stores (JKS), read only: since Java 9 keytool writes PKCS12, but the old files are about.

The layout is that of sun.security.provider.JavaKeyStore, the protection of keys that of its KeyProtector: a keystream
of SHA-1 over password and salt. Both are weak, which is why nothing here writes them.
"""

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

MAGIC = b"\xfe\xed\xfe\xed"
KEY, CERTIFICATE = 1, 2
WHITENER = b"Mighty Aphrodite"
DIGEST_BYTES = SALT_BYTES = 20
SUN_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")
"""The algorithm 1.3.6.1.4.1.42.2.17.1.1, as DER writes it."""
SEQUENCE, OCTET_STRING = 0x30, 0x04


class BadKeyStore(ValueError):  # noqa: N818 - it names what was given
    """Raised for a file that is not a key store, or that has another password."""


@dataclass(slots=True)
class KeyEntry:
    """A private key, which is protected by a password, and its certificates (DER), its own first."""

    alias: str
    protected: bytes
    chain: list[bytes]

    def key(self, password: str) -> bytes:
        """Return the private key (PKCS #8, DER). Raises BadKeyStore."""
        return _unprotected(self.protected, password)


@dataclass(slots=True)
class JavaKeyStore:
    """Contents of a Java key store."""

    keys: list[KeyEntry] = field(default_factory=list)
    trusted: list[bytes] = field(default_factory=list)
    """Certificates (DER)."""


def read_java_key_store(data: bytes, password: str | None) -> JavaKeyStore:
    """Read a file's content. Without `password` its integrity is not checked. Raises BadKeyStore."""
    if password is not None:
        digest = hashlib.sha1(_utf16(password) + WHITENER + data[:-DIGEST_BYTES]).digest()
        if not hmac.compare_digest(digest, data[-DIGEST_BYTES:]):
            raise BadKeyStore("the key store was tampered with, or its password is another")
    reader = _Reader(data[:-DIGEST_BYTES])
    if reader.take(4) != MAGIC:
        raise BadKeyStore("not a JKS key store")
    version = reader.number()
    if version not in (1, 2):
        raise BadKeyStore(f"a JKS key store of version {version}")
    store = JavaKeyStore()
    for _ in range(reader.number()):
        kind, alias, _ = reader.number(), reader.text(), reader.take(8)
        if kind == KEY:
            protected = reader.block()
            chain = [reader.certificate(version) for _ in range(reader.number())]
            store.keys.append(KeyEntry(alias, protected, chain))
        elif kind == CERTIFICATE:
            store.trusted.append(reader.certificate(version))
        else:
            raise BadKeyStore(f"an entry of kind {kind}")
    return store


class _Reader:
    """Big-endian fields, as Java's DataInputStream reads them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise BadKeyStore("the key store ends early")
        part, self._at = self._data[self._at : end], end
        return part

    def number(self) -> int:
        value: int = struct.unpack(">i", self.take(4))[0]
        return value

    def text(self) -> str:
        return self.take(struct.unpack(">H", self.take(2))[0]).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self.take(self.number())

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) != "X.509":
            raise BadKeyStore(f"a certificate of kind {kind}")
        return self.block()


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _unprotected(protected: bytes, password: str) -> bytes:
    """Return the key in an EncryptedPrivateKeyInfo."""
    content, _ = _element(protected, SEQUENCE)
    algorithm, after = _element(content, SEQUENCE)
    if not algorithm.startswith(SUN_KEY_PROTECTOR):
        raise BadKeyStore("a key that is not protected as JKS does")
    sealed, _ = _element(content[after:], OCTET_STRING)
    salt, cipher, check = sealed[:SALT_BYTES], sealed[SALT_BYTES:-DIGEST_BYTES], sealed[-DIGEST_BYTES:]
    secret, block, stream = _utf16(password), salt, b""
    while len(stream) < len(cipher):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise BadKeyStore("the password of the key is another (ssl.key.password)")
    return key


def _element(data: bytes, tag: int) -> tuple[bytes, int]:
    """Return the content of a DER element, and where it ends."""
    if len(data) < 2 or data[0] != tag:
        raise BadKeyStore("a key that is not DER")
    length, at = data[1], 2
    if length & 0x80:
        at += length & 0x7F
        length = int.from_bytes(data[2:at])
    if at + length > len(data):
        raise BadKeyStore("a key that ends early")
    return data[at : at + length], at + length
