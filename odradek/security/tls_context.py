"""OpenSSL's contexts from Kafka's settings: own certificate, trusted certificates, versions and cipher suites.

Source: SslFactory, DefaultSslEngineFactory and SslConfigs of Kafka 3.9.
"""

import os
import secrets
import ssl
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.serialization import Encoding

from odradek.security.errors import BadSecuritySetting
from odradek.security.key_stores import KeyPair, StoreSettings, load_key_pair, load_trusted

VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
TLS_1_3_SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
CLIENT_AUTH: Final = {
    "required": ssl.CERT_REQUIRED,
    "requested": ssl.CERT_OPTIONAL,
    "none": ssl.CERT_NONE,
}

TOO_WEAK: Final = frozenset({"CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL", "EE_KEY_TOO_SMALL"})
"""What OpenSSL calls keys and signatures that Java serves with."""

HANDSHAKE_TURNS_MAX: Final = 8
"""More turns than a handshake takes, of any version of TLS."""

Look = Callable[[str], Any]
"""Finds the value of a setting by Kafka's name: a text, a tuple of texts, or None where nothing is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The settings of TLS at one end, whatever they were read from."""

    key_store: StoreSettings
    trust_store: StoreSettings
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    identification: str = "https"
    """`https`: the server's certificate must be for the name that was connected to; empty: any name will do."""

    @classmethod
    def read(cls, look: Look) -> "TlsSettings":
        """Read TLS settings with Kafka's names. Raises BadSecuritySetting."""
        identification = (look("ssl.endpoint.identification.algorithm") or "").lower()
        if identification not in ("", "https"):
            raise BadSecuritySetting("ssl.endpoint.identification.algorithm", f"{identification} is not https or empty")
        return cls(
            key_store=StoreSettings(
                "keystore",
                (look("ssl.keystore.type") or "JKS").upper(),
                look("ssl.keystore.location"),
                look("ssl.keystore.password"),
                look("ssl.key.password"),
                look("ssl.key.location"),
                (look("ssl.keystore.key"), look("ssl.keystore.certificate.chain")),
            ),
            trust_store=StoreSettings(
                "truststore",
                (look("ssl.truststore.type") or "JKS").upper(),
                look("ssl.truststore.location"),
                look("ssl.truststore.password"),
                pem=(look("ssl.truststore.certificates"), None),
            ),
            enabled_protocols=tuple(look("ssl.enabled.protocols") or ("TLSv1.2", "TLSv1.3")),
            cipher_suites=tuple(look("ssl.cipher.suites") or ()),
            client_auth=(look("ssl.client.auth") or "none").lower(),
            identification=identification,
        )


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the context of a listener. Reads files; raises BadSecuritySetting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, settings)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION
    # No resumption: a client that was trusted once would still be after the trust store has changed.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    if not settings.key_store.is_set:
        raise BadSecuritySetting("ssl.keystore.location", "a listener with TLS needs a key and its certificate")
    _present(context, load_key_pair(settings.key_store))
    if settings.client_auth not in CLIENT_AUTH:
        raise BadSecuritySetting("ssl.client.auth", f"{settings.client_auth} is not {', '.join(CLIENT_AUTH)}")
    context.verify_mode = CLIENT_AUTH[settings.client_auth]
    if settings.trust_store.is_set:
        _trust(context, settings.trust_store)
    elif context.verify_mode is not ssl.CERT_NONE:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the context of whoever connects. Reads files; raises BadSecuritySetting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_versions(context, settings)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.check_hostname = settings.identification == "https"
    context.verify_mode = ssl.CERT_REQUIRED
    if settings.trust_store.is_set:
        _trust(context, settings.trust_store)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.key_store.is_set:
        _present(context, load_key_pair(settings.key_store))
    return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Connect two ends in memory. Raises ssl.SSLError where they would not connect over the network either."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(HANDSHAKE_TURNS_MAX):
        for end in tuple(ends):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                ends.remove(end)
    assert not ends, "each turn takes what the other end has sent"


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Set the versions, and the suites that go with them. Raises BadSecuritySetting."""
    name = "ssl.enabled.protocols"
    unknown = [one for one in settings.enabled_protocols if one not in VERSIONS]
    if unknown or not settings.enabled_protocols:
        raise BadSecuritySetting(name, f"{', '.join(unknown) or 'nothing'} is not of {', '.join(VERSIONS)}")
    wanted = {VERSIONS[one] for one in settings.enabled_protocols}
    if settings.cipher_suites:
        wanted = _set_suites(context, settings.cipher_suites, wanted)
    lowest, highest = min(wanted), max(wanted)
    if wanted != {one for one in VERSIONS.values() if lowest <= one <= highest}:
        raise BadSecuritySetting(name, "versions must follow each other without a gap")
    context.minimum_version, context.maximum_version = lowest, highest


def _set_suites(context: ssl.SSLContext, suites: Sequence[str], versions: set[ssl.TLSVersion]) -> set[ssl.TLSVersion]:
    """Allow only these suites; return the versions that they leave. Python cannot choose among those of TLS 1.3."""
    name = "ssl.cipher.suites"
    newest = TLS_1_3_SUITES.intersection(suites)
    older = [one for one in suites if one not in TLS_1_3_SUITES]
    if newest and newest != TLS_1_3_SUITES and ssl.TLSVersion.TLSv1_3 in versions:
        raise BadSecuritySetting(name, f"TLS 1.3 can be had with all of {', '.join(sorted(TLS_1_3_SUITES))} only")
    left = {one for one in versions if (newest if one is ssl.TLSVersion.TLSv1_3 else older)}
    if not left:
        raise BadSecuritySetting(name, "none of them is for a version in ssl.enabled.protocols")
    if older:
        try:
            context.set_ciphers(":".join(openssl_name(one) for one in older))
        except ssl.SSLError:
            raise BadSecuritySetting(name, "OpenSSL knows none of them") from None
        known = {one["name"] for one in context.get_ciphers()}
        unknown = [one for one in older if openssl_name(one) not in known]
        if unknown:
            raise BadSecuritySetting(name, f"OpenSSL does not know {', '.join(unknown)}")
    return left


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a TLS 1.2 suite that Java and the standards call TLS_…_WITH_AES_256_GCM_SHA384."""
    if not suite.startswith("TLS_") or "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    for bits in ("128", "256"):
        cipher = cipher.replace(f"AES_{bits}_CBC", f"AES{bits}").replace(f"AES_{bits}", f"AES{bits}")
    cipher = cipher.replace("POLY1305_SHA256", "POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}-{cipher}").replace("_", "-")


def _present(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Set this end's key and certificate. OpenSSL takes a key only from a file: it gets an encrypted one in memory."""
    password = secrets.token_bytes(32).hex().encode()
    with _in_memory(pair.key_pem(password)) as key_path, _in_memory(pair.chain_pem()) as chain_path:
        try:
            context.load_cert_chain(chain_path, key_path, password)
        except ssl.SSLError as error:
            said = f"key and certificate: {error.reason}"
            if error.reason in TOO_WEAK:
                said += (
                    ": Java serves with these, OpenSSL does not; "
                    "make keys of at least 2048 bits (RSA) and sign them anew with SHA-256"
                )
            raise BadSecuritySetting("ssl.keystore.location", said) from None


@contextmanager
def _in_memory(data: bytes) -> Any:
    descriptor = os.memfd_create("odradek")
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _trust(context: ssl.SSLContext, store: StoreSettings) -> None:
    trusted = load_trusted(store)
    try:
        context.load_verify_locations(cadata=b"".join(one.public_bytes(Encoding.DER) for one in trusted))
    except ssl.SSLError as error:
        raise BadSecuritySetting(store.name("location"), f"{error.reason}") from None
    # As in Java, a certificate that is trusted by itself need not be an authority's.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
