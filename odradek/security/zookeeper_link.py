"""The link to ZooKeeper out of settings with Kafka's names: `zookeeper.ssl.…`, `zookeeper.set.acl`, and a login.

Kafka takes the login from the section `Client` of Java's JAAS file, for which it has no setting; here
`zookeeper.sasl.jaas.config` holds what stands in that section. Source: KafkaServer and KafkaConfig of Kafka 3.9.
"""

import importlib.util
from pathlib import PurePath
from typing import Any, Final

from odradek.security.errors import BadSecuritySetting
from odradek.security.jaas import parse_jaas
from odradek.security.tls_context import Look, TlsSettings, client_context
from odradek.zk_schema.link import OPEN, Link

LOGIN: Final = "zookeeper.sasl.jaas.config"
LOGIN_MODULE: Final = "DigestLoginModule"
TLS_NAMES: Final = frozenset(
    {
        *(f"ssl.{store}.{what}" for store in ("keystore", "truststore") for what in ("location", "password", "type")),
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
    }
)
"""Names that TLS has towards ZooKeeper too, behind `zookeeper.`."""
TYPES: Final = {".jks": "JKS", ".pem": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12"}
"""Types of stores by the ends of their files' names, as ZooKeeper finds them."""


def read_link(look: Look) -> Link:
    """Read files and settings. Raises BadSecuritySetting."""
    encrypted, set_acl = bool(look("zookeeper.ssl.client.enable")), bool(look("zookeeper.set.acl"))
    user, password = _login(look(LOGIN))
    if not (encrypted or set_acl or user):
        return OPEN
    has_certificate = encrypted and look("zookeeper.ssl.keystore.location") is not None
    if set_acl and not (user or has_certificate):
        raise BadSecuritySetting(
            "zookeeper.set.acl",
            f"ZooKeeper must know whose the znodes are: {LOGIN}, or zookeeper.ssl.client.enable with a key store",
        )
    return Link(client_context(_tls(look)) if encrypted else None, user, password, set_acl)


def _login(jaas: Any) -> tuple[str, str]:
    if not jaas:
        return "", ""
    entry = parse_jaas(jaas, LOGIN)
    if entry.module.rpartition(".")[2] != LOGIN_MODULE:
        raise BadSecuritySetting(LOGIN, f"login module {entry.module} is not built, {LOGIN_MODULE} is")
    user, password = entry.options.get("username"), entry.options.get("password")
    if not user or not password:
        raise BadSecuritySetting(LOGIN, "username and password are needed")
    if importlib.util.find_spec("puresasl") is None:
        raise BadSecuritySetting(LOGIN, "needs the package pure-sasl: pip install odradek[zookeeper-sasl]")
    return user, password


def _tls(look: Look) -> TlsSettings:
    def renamed(name: str) -> Any:
        if name not in TLS_NAMES:
            return None
        value = look(f"zookeeper.{name}")
        if name == "ssl.enabled.protocols":
            return value or dict.fromkeys((look("zookeeper.ssl.protocol"), "TLSv1.3"))  # no limit, as in Java
        if name.endswith("store.type") and not value:
            location = look(f"zookeeper.{name.removesuffix('type')}location") or ""
            return TYPES.get(PurePath(location).suffix.lower(), "JKS")
        return value

    return TlsSettings.read(renamed)
