"""Principals, as Kafka writes them."""

import pytest

from odradek.broker.security.principal import ANONYMOUS, KafkaPrincipal


@pytest.mark.parametrize("text", ["User:alice", "User:CN=alice,OU=a:b", "Group:*", "User:a b"])
def test_a_principal_is_read_as_it_is_written(text: str) -> None:
    assert str(KafkaPrincipal.parse(text)) == text


def test_the_name_may_hold_colons() -> None:
    assert KafkaPrincipal.parse("User:a:b") == KafkaPrincipal("User", "a:b")
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_what_is_no_principal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="principalType:principalName"):
        KafkaPrincipal.parse(text)
