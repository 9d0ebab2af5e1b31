"""OAuth tokens without a signature: what of them counts, and which scopes a listener asks for."""

import base64
import json
import time
from typing import Any

import jwt
import pytest

from odradek.broker.security.bearer_tokens import UnsecuredTokens, bearer_validator
from odradek.broker.security.sasl_mechanisms import BearerServer
from odradek.security.errors import AuthenticationFailed, BadSecuritySetting, InvalidCredentials
from odradek.security.jaas import JaasEntry
from tests.broker.security.sasl_listener import UNSECURED

NOW, FAR = time.time(), 1e6
"""Seconds since 1970, and seconds that no run of the tests takes."""


def token(header: Any = None, signature: str = "", **claims: Any) -> str:
    body = {"sub": "alice", "exp": NOW + 2 * FAR, **claims}
    parts = (
        {"alg": "none"} if header is None else header,
        {name: one for name, one in body.items() if one is not None},
    )
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts), signature]
    )


def test_what_libraries_write_beside_the_algorithm_does_not_matter() -> None:
    """PyJWT, as most others, says that it is a JWT: everybody with such a token was refused."""
    body = {"sub": "alice", "exp": int(NOW + FAR), "iat": int(NOW)}
    assert UnsecuredTokens({})(jwt.encode(body, "", "none")).principal == "alice"
    assert UnsecuredTokens({})(token({"alg": "none", "typ": "JWT", "kid": "x"})).principal == "alice"


@pytest.mark.parametrize(
    "wrong",
    [
        token({"alg": "HS256"}),
        token({"typ": "JWT"}),
        token(["none"]),
        token("none"),
        token(signature="c2ln"),
        token(exp=NOW - 1),
        token(exp=None),
        token(iat=NOW + FAR),
        token(iat=NOW - 1, exp=NOW - 2),
        token(sub=None),
        token(sub=7),
        token() + ".",
        "..",
        "",
    ],
    ids=[
        "signed", "no algorithm", "a list", "a text", "with a signature", "expired", "without an end", "issued later",
        "issued after its end", "of nobody", "of a number", "four parts", "empty parts", "nothing",
    ],
)  # fmt: skip
def test_tokens_that_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidCredentials):
        UnsecuredTokens({})(wrong)


def test_who_says_to_have_been_issued_after_its_end_is_refused() -> None:
    validate = UnsecuredTokens({"unsecuredValidatorAllowableClockSkewMs": str(int(FAR) * 1000)})
    assert validate(token(iat=NOW - 31, exp=NOW - 30)).principal == "alice"
    for issued in (NOW - 30, NOW + 30):
        with pytest.raises(InvalidCredentials):
            validate(token(iat=issued, exp=NOW - 30))


def test_a_claim_of_another_name_says_who_it_is() -> None:
    validate = UnsecuredTokens({"unsecuredValidatorPrincipalClaimName": "who"})
    assert validate(token(who="bob", sub=None)).principal == "bob"


@pytest.mark.parametrize(
    ("claims", "enough"),
    [
        ({"scope": ["read", "log in"]}, False),
        ({"scope": ["read", "login"]}, True),
        ({"scope": ["login", "write", " read "]}, True),
        ({"scope": "read"}, False),
        ({"scope": "read login"}, False),
        ({"scope": []}, False),
        ({"scope": 7}, False),
        ({"scp": ["read", "login"]}, False),
        ({}, False),
    ],
)
def test_all_scopes_that_are_required_must_be_there(claims: dict[str, Any], enough: bool) -> None:
    """Whoever had any token came in, whatever unsecuredValidatorRequiredScope says."""
    server = BearerServer(UnsecuredTokens({"unsecuredValidatorRequiredScope": " read  login "}))
    answer = server.evaluate(f"n,,\x01auth=Bearer {token(**claims)}\x01\x01".encode())
    assert server.complete is enough
    if not enough:
        assert answer == b'{"status":"insufficient_scope", "scope":"[read, login]"}'
        with pytest.raises(AuthenticationFailed):
            server.evaluate(b"\x01")


def test_a_required_scope_may_stand_in_another_claim() -> None:
    validate = UnsecuredTokens({"unsecuredValidatorRequiredScope": "login", "unsecuredValidatorScopeClaimName": "scp"})
    assert validate(token(scp="login")).principal == "alice"
    with pytest.raises(InvalidCredentials):
        validate(token(scope="login"))


@pytest.mark.parametrize("skew", ["soon", "-1", "1.5"])
def test_a_skew_that_is_no_number_is_named(skew: str) -> None:
    """The broker ended with a traceback."""
    jaas = JaasEntry("OAuthBearerLoginModule", {"unsecuredValidatorAllowableClockSkewMs": skew})
    with pytest.raises(BadSecuritySetting, match="unsecuredValidatorAllowableClockSkewMs"):
        bearer_validator({"oauthbearer.sasl.server.callback.handler.class": UNSECURED}.get, jaas)
