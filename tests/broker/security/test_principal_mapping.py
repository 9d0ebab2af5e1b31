"""Who a certificate speaks for: names as Java writes them, and Kafka's rules."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from odradek.broker.security.principal_mapping import PrincipalMapping, distinguished_name
from odradek.security.authority import Authority
from odradek.security.errors import AuthenticationFailed, BadSecuritySetting


def test_names_as_java_writes_them() -> None:
    pair = Authority("CA").issue("alice #1", organization='Flights, "Inc" ')
    assert distinguished_name(pair.chain[0].public_bytes(Encoding.DER)) == 'CN=alice #1,O=Flights\\, \\"Inc\\"\\ '


def test_attributes_without_a_name_are_numbers() -> None:
    from odradek.broker.security.principal_mapping import _attribute

    email = x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c")
    assert _attribute(email) == "1.2.840.113549.1.9.1=#1605" + b"a@b.c".hex()


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("", "CN=a", "CN=a"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=kafka1,OU=ServiceUsers,O=X", "kafka1"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L,DEFAULT", "CN=Adm,OU=Adm,O=X", "adm@adm"),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT", "CN=duke.x,O=b", "DUKE.X"),
        ("RULE:^nothing$/x/, DEFAULT", "CN=duke", "CN=duke"),
        (r"RULE:CN=(\w+)/$1/, DEFAULT", "CN=duke", "duke"),
        (r"RULE:CN=(\w+)/$1/, DEFAULT", "CN=duke,O=b", "CN=duke,O=b"),
        (r"RULE:CN=(\w+)/$1/, DEFAULT", "O=b,CN=duke", "O=b,CN=duke"),
        (r"RULE:^CN=(.*?),OU=(.*?)$/$2\/$1\$1\\/", "CN=kafka,OU=h", "h/kafka$1\\"),
        (f"RULE:^{'(.)' * 11}$/$11$1$12$012-$0/", "abcdefghijk", "kaa2a2-abcdefghijk"),
        (" ,, RULE:^nothing$/x/ ,,, DEFAULT, , ", "CN=duke", "CN=duke"),
    ],
)
def test_rules(rules: str, name: str, user: str) -> None:
    assert PrincipalMapping(rules).principal(name).name == user


@pytest.mark.parametrize("rules", ["RULE:", "RULE:a/b", "default", "RULE:(/x/", "DEFAULT x"])
def test_rules_that_are_none(rules: str) -> None:
    with pytest.raises(BadSecuritySetting):
        PrincipalMapping(rules)


def test_nobody_without_a_rule() -> None:
    with pytest.raises(AuthenticationFailed, match="no rule"):
        PrincipalMapping("RULE:^CN=a$/a/").principal("CN=b")
