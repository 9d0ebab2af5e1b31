"""sasl.kerberos.principal.to.local.rules: names of Kerberos as names of users."""

import pytest

from odradek.broker.security.kerberos_server import KerberosNames
from odradek.security.errors import AuthenticationFailed, BadSecuritySetting

REALM = "EXAMPLE.ORG"


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        ([], "alice@EXAMPLE.ORG", "alice"),
        (["DEFAULT"], "kafka/host.example.org@EXAMPLE.ORG", "kafka"),
        (["DEFAULT"], "alice@OTHER.ORG", None),
        (["RULE:[1:$1]"], "alice@OTHER.ORG", "alice"),
        (["RULE:[1:$1]"], "alice/admin@OTHER.ORG", None),
        (["RULE:[2:$1]"], "alice/admin@OTHER.ORG", "alice"),
        (["RULE:[2:$1;$2](^.*;admin$)s/;admin$//"], "alice/admin@EXAMPLE.ORG", "alice"),
        (["RULE:[2:$1;$2](^.*;admin$)s/;admin$//"], "alice/user@EXAMPLE.ORG", None),
        (["RULE:[1:$1@$0](.*@OTHER\\.ORG)s/@.*//", "DEFAULT"], "bob@OTHER.ORG", "bob"),
        (["RULE:[1:$1@$0](.*@OTHER\\.ORG)s/@.*//", "DEFAULT"], "bob@OTHERxORG", None),
        (["RULE:[1:$1@$0](.*@OTHER\\.ORG)s/@.*//", "DEFAULT"], "carol@EXAMPLE.ORG", "carol"),
        (["RULE:[1:$1@$0]"], "bob@OTHER.ORG", None),
        (["RULE:[1:$1]s/a/b/"], "banana@X", "bbnana"),
        (["RULE:[1:$1]s/a/b/g"], "banana@X", "bbnbnb"),
        (["RULE:[1:$1]s/(.)(.*)/$2$1/"], "alice@X", "licea"),
        (["RULE:[1:$1]s/alice/$9/"], "alice@X", "$9"),
        (["RULE:[1:$1]/L"], "Alice@X", "alice"),
        (["RULE:[1:$1]s/ice/ICE/U"], "alice@X", "ALICE"),
        (["RULE:[1:$1]s/.*//", "DEFAULT"], "alice@EXAMPLE.ORG", None),
        (["DEFAULT"], r"al\/ice@EXAMPLE.ORG", None),
        (["DEFAULT"], "a/b/c@EXAMPLE.ORG", None),
        (["DEFAULT"], "alice", None),
    ],
)
def test_the_first_rule_that_fits_decides(rules: list[str], principal: str, user: str | None) -> None:
    names = KerberosNames(rules, REALM)
    if user is not None:
        assert names.user(principal) == user
        return
    with pytest.raises(AuthenticationFailed, match="Authentication failed: "):
        names.user(principal)


@pytest.mark.parametrize(
    "rule",
    [
        "default",
        "RULE:[1:$1",
        "RULE:[1:$2]",
        "RULE:[0:$0]",
        "RULE:[1:$]",
        "RULE:[1:$1](()",
        "RULE:[1:$1]s/(/x/",
        "RULE:[1:$1]/X",
    ],
)
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(BadSecuritySetting, match=r"sasl\.kerberos\.principal\.to\.local\.rules: "):
        KerberosNames(["DEFAULT", rule], REALM)
