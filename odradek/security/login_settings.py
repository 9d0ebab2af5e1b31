"""Settings of a login by SASL: which mechanism, and with what. What OAUTHBEARER and GSSAPI need is loaded with them."""

from typing import Any

from odradek.security.errors import BadSecuritySetting
from odradek.security.jaas import JaasEntry, parse_jaas
from odradek.security.sasl_client import Login, PlainClient
from odradek.security.scram import MECHANISMS as SCRAM_MECHANISMS
from odradek.security.scram import ScramClient, new_nonce
from odradek.security.tls_context import Look


def read_login(look: Look) -> Login:
    """Read a login out of settings with Kafka's names or kafka-python's. Raises BadSecuritySetting.

    The settings are `sasl.mechanism`, and `sasl.jaas.config` or a name and a password.
    """
    mechanism = (look("sasl.mechanism") or "GSSAPI").upper()
    text: Any = look("sasl.jaas.config")
    jaas = None if text is None else parse_jaas(text)
    if mechanism == "OAUTHBEARER":
        from odradek.security.bearer_login import bearer_login

        return bearer_login(look, jaas)
    if mechanism == "GSSAPI":
        from odradek.security.kerberos import kerberos_login

        return kerberos_login(look, jaas)
    if mechanism != "PLAIN" and mechanism not in SCRAM_MECHANISMS:
        known = ", ".join(("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER", "GSSAPI"))
        raise BadSecuritySetting("sasl.mechanism", f"{mechanism} is not known; {known} are")
    user, password, token = _name_and_password(look, jaas, mechanism)
    if mechanism == "PLAIN":
        return Login(mechanism, lambda _: PlainClient(user, password))
    return Login(mechanism, lambda _: ScramClient(mechanism, user, password, new_nonce(), token=token))


def _name_and_password(look: Look, jaas: JaasEntry | None, mechanism: str) -> tuple[str, str, bool]:
    if jaas is None:
        user, password, token = look("sasl.username"), look("sasl.password"), "false"
    else:
        if jaas.family != mechanism.partition("-")[0]:
            raise BadSecuritySetting("sasl.jaas.config", f"{jaas.module} is not for {mechanism}")
        user, password = jaas.options.get("username"), jaas.options.get("password")
        token = jaas.options.get("tokenauth", "false")
    if user is None or password is None:
        raise BadSecuritySetting("sasl.jaas.config", f"{mechanism} needs a user's name and a password")
    return user, password, token.lower() == "true"
