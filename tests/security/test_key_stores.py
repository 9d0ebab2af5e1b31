"""Keys and certificates out of every kind of store that Kafka's settings name."""

from datetime import timedelta
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, pkcs12
from cryptography.x509.oid import ExtensionOID, NameOID

from odradek.security.errors import BadSecuritySetting
from odradek.security.jks import BadKeyStore, read_java_key_store
from odradek.security.key_stores import KeyPair, StoreSettings, alternative_names, load_key_pair, load_trusted
from odradek.security.tls_context import TlsSettings, client_context, openssl_name, server_context

PASSWORD = "sekrit-é"
GOLDEN = Path(__file__).parent / "golden"


def pem_file(folder: Path, people: Any, password: bytes | None) -> str:
    path = folder / "keystore.pem"
    path.write_bytes(people.broker.chain_pem() + people.broker.key_pem(password))
    return str(path)


def pkcs12_file(folder: Path, people: Any) -> str:
    path = folder / "keystore.p12"
    pair = people.broker
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"broker", pair.key, pair.chain[0], pair.chain[1:], BestAvailableEncryption(PASSWORD.encode())
        )
    )
    return str(path)


@pytest.mark.parametrize("kind", ["pem", "encrypted pem", "texts", "pkcs12", "pkcs12 called jks"])
def test_a_key_and_its_chain(tmp_path: Path, people: Any, kind: str) -> None:
    pair = people.broker
    secret = PASSWORD if kind == "encrypted pem" else None
    pem = pem_file(tmp_path, people, None if secret is None else secret.encode())
    store = {
        "pem": StoreSettings("keystore", "PEM", pem),
        "encrypted pem": StoreSettings("keystore", "PEM", pem, key_password=secret),
        "texts": StoreSettings("keystore", "PEM", pem=(pair.key_pem().decode(), pair.chain_pem().decode())),
        "pkcs12": StoreSettings("keystore", "PKCS12", pkcs12_file(tmp_path, people), PASSWORD),
        "pkcs12 called jks": StoreSettings("keystore", "JKS", pkcs12_file(tmp_path, people), PASSWORD),
    }[kind]
    found = load_key_pair(store)
    assert found.key.private_numbers() == pair.key.private_numbers()  # type: ignore[union-attr]
    assert found.chain == pair.chain
    assert PASSWORD not in repr(store) and "PRIVATE" not in repr(store)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "wrong"}, "ssl.keystore.location: .*keystore.p12: Invalid password"),
        ({"password": None}, "ssl.keystore.location: .*keystore.p12"),
        ({"location": "/nowhere/k.p12"}, "ssl.keystore.location: /nowhere/k.p12: No such file"),
        ({"location": None}, "ssl.keystore.location: is not set"),
        ({"type": "BCFKS"}, "ssl.keystore.type: BCFKS cannot be read"),
        ({"pem": ("k", "c")}, "ssl.keystore.type: must be PEM"),
        ({"type": "PEM", "pem": ("k", None), "location": None}, "goes together"),
        ({"type": "PEM", "pem": ("k", "c"), "location": None}, "no private key could be read"),
    ],
)
def test_what_is_wrong_is_one_line_without_secrets(
    tmp_path: Path, people: Any, change: dict[str, Any], said: str
) -> None:
    settings = {"type": "PKCS12", "location": pkcs12_file(tmp_path, people), "password": PASSWORD, **change}
    with pytest.raises(BadSecuritySetting, match=said) as refused:
        load_key_pair(StoreSettings("keystore", **settings))
    assert "\n" not in str(refused.value) and PASSWORD not in str(refused.value)


def test_a_pem_file_that_cannot_be_read_is_named_with_what_is_wrong(tmp_path: Path, people: Any) -> None:
    """It named neither the file nor the setting of the password, and led to a page about a library."""
    path = pem_file(tmp_path, people, PASSWORD.encode())
    for given, said in (("wrong", "Incorrect password"), (None, "Password was not given")):
        with pytest.raises(BadSecuritySetting) as refused:
            load_key_pair(StoreSettings("keystore", "PEM", path, key_password=given))
        text = str(refused.value)
        assert text.startswith(f"ssl.keystore.location: {path}: no private key could be read: {said}")
        assert text.endswith(" (ssl.key.password)")
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(BadSecuritySetting) as refused:
        load_trusted(StoreSettings("truststore", "PEM", str(tmp_path / "ca.pem")))
    assert str(refused.value) == (
        f"ssl.truststore.location: {tmp_path}/ca.pem: no certificate could be read: Unable to load PEM file"
    )


def test_blank_lines_in_pem_are_passed_over(people: Any) -> None:
    """As by Java: the library takes what stands before one for headers, and showed a line of the key in its words."""
    pair = people.broker
    key, chain = ("\n\n \r\n".join(one.decode().split("\n")) for one in (pair.key_pem(), pair.chain_pem()))
    assert load_key_pair(StoreSettings("keystore", "PEM", pem=(key, chain))).chain == pair.chain
    assert load_trusted(StoreSettings("truststore", "PEM", pem=(chain, None))) == list(pair.chain)
    encryption = BestAvailableEncryption(PASSWORD.encode())
    old = pair.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, encryption).decode()
    assert "DEK-Info" in old
    settings = StoreSettings("keystore", "PEM", key_password=PASSWORD, pem=(f"{chain}\n\n{old}", chain))
    assert load_key_pair(settings).chain == pair.chain
    with pytest.raises(BadSecuritySetting, match="Unable to load PEM file") as refused:
        load_key_pair(StoreSettings("keystore", "PEM", pem=(f"{key}# DEK-Info:", chain)))
    assert not {line for line in key.split() if line in str(refused.value)} - {"PRIVATE", "KEY"}


def test_javas_own_files() -> None:
    """As keytool has written them: golden/ holds a JKS key store, and one authority as JKS and as PKCS12."""
    authority = x509.load_pem_x509_certificate((GOLDEN / "ca.pem").read_bytes())
    store = GOLDEN / "keystore.jks"
    found = load_key_pair(StoreSettings("keystore", "JKS", str(store), "storepass", "keypass"))
    assert found.key.public_key() == found.chain[0].public_key()
    assert found.chain[1] == authority
    for name, password in (("truststore.jks", "storepass"), ("truststore.jks", None), ("truststore.p12", "storepass")):
        assert load_trusted(StoreSettings("truststore", "JKS", str(GOLDEN / name), password)) == [authority]
    for name, password, key_password, said in (
        ("keystore.jks", "wrong", None, "its password is another"),
        ("keystore.jks", "storepass", "wrong", r"ssl\.key\.password"),
        ("keystore.jks", None, None, r"ssl\.keystore\.password: is needed"),
        ("truststore.jks", "storepass", None, "holds no private key"),
        ("truststore.p12", "storepass", None, "holds no private key"),
    ):
        with pytest.raises(BadSecuritySetting, match=said):
            load_key_pair(StoreSettings("keystore", "JKS", str(GOLDEN / name), password, key_password))


def test_a_trust_store_may_hold_a_key_whose_certificate_is_trusted_then(tmp_path: Path, people: Any) -> None:
    """As Java does, which looks at the first certificate of a key's chain; the key's own password is not needed."""
    shown = load_key_pair(StoreSettings("keystore", "JKS", str(GOLDEN / "keystore.jks"), "storepass", "keypass"))
    for password in ("storepass", None):
        found = load_trusted(StoreSettings("truststore", "JKS", str(GOLDEN / "keystore.jks"), password))
        assert found == [shown.chain[0]]
    found = load_trusted(StoreSettings("truststore", "PKCS12", pkcs12_file(tmp_path, people), PASSWORD))
    assert people.broker.chain[0] in found


@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12"])
def test_a_key_store_is_read_again_and_again_without_testing_its_keys_primes(tmp_path: Path, kind: str) -> None:
    """A broker reads each of its listeners' several times whenever a setting of one changes, and does nothing else
    meanwhile: with keys of 4096 bits, whose test takes a quarter of a second, that was seconds."""
    jks = StoreSettings("keystore", "JKS", str(GOLDEN / "rsa.jks"), "storepass", "keypass")
    people = SimpleNamespace(broker=load_key_pair(jks))
    store = {
        "PEM": StoreSettings("keystore", "PEM", pem_file(tmp_path, people, None)),
        "JKS": jks,
        "PKCS12": StoreSettings("keystore", "PKCS12", pkcs12_file(tmp_path, people), PASSWORD),
    }[kind]
    key = load_key_pair(store).key
    assert isinstance(key, rsa.RSAPrivateKey)
    numbers = key.private_numbers()
    start = process_time()
    numbers.private_key()  # tests the primes
    tested = process_time()
    for _ in range(5):
        load_key_pair(store)
    assert process_time() - tested < tested - start


def test_a_jks_file_that_is_cut_anywhere_is_refused() -> None:
    whole = (GOLDEN / "keystore.jks").read_bytes()
    for end in range(0, len(whole) - 20, 13):
        with pytest.raises(BadKeyStore):
            read_java_key_store(whole[:end] + bytes(20), None)


def test_contexts(people: Any) -> None:
    base = people.server()
    assert server_context(TlsSettings.read(base.get))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth"),
        ({"ssl.enabled.protocols": ["SSLv3"]}, "ssl.enabled.protocols"),
        ({"ssl.enabled.protocols": ["TLSv1.1", "TLSv1.3"]}, "without a gap"),
        ({"ssl.cipher.suites": ["TLS_AES_128_GCM_SHA256"]}, "TLS 1.3 can be had with all of"),
        ({"ssl.cipher.suites": ["TLS_ECDHE_WITH_NONSENSE"]}, "OpenSSL knows none"),
        ({"ssl.keystore.key": people.client.key_pem().decode()}, "key and certificate"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "is not https"),
    ]
    for change, said in wrong:
        with pytest.raises(BadSecuritySetting, match=said):
            server_context(TlsSettings.read({**base, **change}.get))
    with pytest.raises(BadSecuritySetting, match="needs a key"):
        server_context(TlsSettings.read(people.trust().get))
    assert client_context(TlsSettings.read(lambda name: None)).verify_mode.name == "CERT_REQUIRED"


def test_keys_and_certificates_that_openssl_takes_for_too_weak(people: Any) -> None:
    """Java serves with them, so that a broker that moves from Kafka may have them."""
    small = rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "small")])
    start = people.broker.chain[0].not_valid_before_utc
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(small.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(start + timedelta(days=1))
    pair = KeyPair(small, (builder.sign(small, SHA256()),))
    texts = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pair.key_pem().decode(),
        "ssl.keystore.certificate.chain": pair.chain_pem().decode(),
    }
    with pytest.raises(BadSecuritySetting, match=r"EE_KEY_TOO_SMALL: .* sign them anew with SHA-256"):
        server_context(TlsSettings.read(texts.get))


@pytest.mark.parametrize("names", ["3004a3023000", "30058703010203", "ffff"], ids=["x400Address", "address", "garbage"])
def test_a_certificate_whose_alternative_names_cannot_be_read_can_be_renewed(names: str, people: Any) -> None:
    """To compare them with the new ones was an unknown error."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    start = people.broker.chain[0].not_valid_before_utc
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(start + timedelta(days=1))
    unreadable = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, bytes.fromhex(names))
    assert alternative_names(builder.add_extension(unreadable, critical=False).sign(key, SHA256())) == set()
    assert len(alternative_names(people.broker.chain[0])) == 3


def test_names_of_suites() -> None:
    assert openssl_name("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384") == "ECDHE-RSA-AES256-GCM-SHA384"
    assert openssl_name("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256") == "ECDHE-RSA-CHACHA20-POLY1305"
    assert openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA") == "AES128-SHA"
    assert openssl_name("ECDHE-RSA-AES128-GCM-SHA256") == "ECDHE-RSA-AES128-GCM-SHA256"
