"""A user with a SASL mechanism, in the words of each client; and an issuer whose tokens a broker believes."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from odradek.testing.foreign.kerberos import REALM, SERVICE

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
TOKEN_SECONDS: Final = 3600
AUDIENCE: Final = "brokers"


def module(mechanism: str) -> str:
    """Return Kafka's login module of a mechanism, as `sasl.jaas.config` begins."""
    family = mechanism if mechanism in MODULES else "SCRAM"
    return f"{MODULES[family]} required"


class Issuer:
    """Signs tokens; its public key is in a file, which is what brokers are told."""

    def __init__(self, folder: Path) -> None:
        self._key = generate_private_key(SECP256R1())
        self._folder = folder
        public = {**jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True), "kid": "1", "use": "sig"}
        self.keys = folder / "issuer.jwks"
        self.keys.write_text(json.dumps({"keys": [{**public, "alg": "ES256"}]}))

    def token(self, user: str, audience: str = AUDIENCE) -> Path:
        """Return a file with a token that says that its bearer is `user`."""
        now = int(time.time())
        claims = {"sub": user, "aud": audience, "iat": now, "exp": now + TOKEN_SECONDS}
        path = self._folder / f"{user}-{audience}.jwt"
        path.write_text(jwt.encode(claims, self._key, "ES256", {"kid": "1"}))
        return path

    def broker_settings(self, listener: str) -> dict[str, str]:
        """Return what a broker needs to believe it, at one listener, whose name is in small letters."""
        handler = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler"
        return {
            f"listener.name.{listener}.oauthbearer.sasl.server.callback.handler.class": handler,
            f"listener.name.{listener}.oauthbearer.sasl.jaas.config": f"{module('OAUTHBEARER')};",
            "sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }


@dataclass(frozen=True, slots=True)
class Login:
    """`secret` is a password; of OAUTHBEARER the file of a token, of GSSAPI a key table."""

    mechanism: str
    user: str
    secret: str
    authority: Path
    """Certificate of the brokers' authority, PEM."""

    @property
    def token(self) -> str:
        return Path(self.secret).read_text()

    def properties(self) -> dict[str, str]:
        """Return Kafka's own settings, for Java and for our clients."""
        found = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }
        jaas = module(self.mechanism)
        if self.mechanism == "OAUTHBEARER":
            found["sasl.oauthbearer.token.endpoint.url"] = Path(self.secret).as_uri()
        elif self.mechanism == "GSSAPI":
            found["sasl.kerberos.service.name"] = SERVICE
            jaas += f' useKeyTab=true storeKey=true keyTab="{self.secret}" principal="{self.user}@{REALM}"'
        else:
            jaas += f' username="{self.user}" password="{self.secret}"'
        return {**found, "sasl.jaas.config": f"{jaas};"}

    def java_file(self, folder: Path) -> Path:
        """Write them for Kafka's tools; return the file."""
        path = folder / f"{self.user}-{self.mechanism}.properties"
        settings = self.properties()
        if self.mechanism == "OAUTHBEARER":
            handler = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
            settings["sasl.login.callback.handler.class"] = handler
        path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        return path

    def librdkafka(self) -> dict[str, Any]:
        """Return settings of librdkafka; a token comes by confluent-kafka's `oauth_cb`."""
        found: dict[str, Any] = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "ssl.ca.location": str(self.authority),
        }
        if self.mechanism == "OAUTHBEARER":
            return {**found, "oauth_cb": lambda _: (self.token, time.time() + TOKEN_SECONDS)}
        if self.mechanism == "GSSAPI":
            keys = {"sasl.kerberos.keytab": self.secret, "sasl.kerberos.principal": f"{self.user}@{REALM}"}
            return {**found, **keys, "sasl.kerberos.service.name": SERVICE}
        return {**found, "sasl.username": self.user, "sasl.password": self.secret}

    def python(self) -> Mapping[str, Any]:
        """Return what kafka-python and aiokafka call it; tokens and trust are classes of their own there."""
        found = {"security_protocol": "SASL_SSL", "sasl_mechanism": self.mechanism}
        if self.mechanism == "OAUTHBEARER":
            return found
        if self.mechanism == "GSSAPI":  # with the tickets of kinit
            return {**found, "sasl_kerberos_service_name": SERVICE, "sasl_kerberos_domain_name": "localhost"}
        return {**found, "sasl_plain_username": self.user, "sasl_plain_password": self.secret}

    def kafkajs(self) -> dict[str, Any]:
        """Return `ssl` and `sasl` of KafkaJS, as JSON can carry them: the driver makes a function of a token."""
        sasl = {"mechanism": self.mechanism.lower()}
        if self.mechanism == "OAUTHBEARER":
            sasl["token"] = self.token
        else:
            sasl |= {"username": self.user, "password": self.secret}
        return {"ssl": {"ca": [self.authority.read_text()]}, "sasl": sasl}
