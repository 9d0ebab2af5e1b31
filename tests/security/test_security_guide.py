"""The settings that docs/security.md and docs/authorization.md show are settings, as a properties file is read."""

import re
from pathlib import Path

import pytest

from odradek.broker.security.kerberos_server import SETTING, KerberosNames
from odradek.broker.settings.catalog import known_setting
from odradek.broker.settings.properties import parse_properties
from odradek.broker.settings.providers import is_about_providers
from odradek.security.errors import AuthenticationFailed

DOCS = Path(__file__).parents[2] / "docs"


def shown(page: str) -> dict[str, str]:
    """Return all settings in the blocks of a page."""
    blocks = re.findall(r"^```(?:properties)?\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    found: dict[str, str] = {}
    for block in blocks:
        if re.match(r"[a-z.]+=", block):
            found.update((one.key, one.value) for one in parse_properties(block))
    return found


@pytest.mark.parametrize(("page", "count"), [("security.md", 22), ("authorization.md", 3)])
def test_every_setting_is_one(page: str, count: int) -> None:
    settings = shown(page)
    assert len(settings) == count
    assert [one for one in settings if known_setting(one) is None and not is_about_providers(one)] == []


def test_the_rule_for_a_partner_is_for_that_realm_alone() -> None:
    """Its backslash stood there once, and was lost: realms that look like the partner's had its users, too."""
    rules = KerberosNames(shown("security.md")[SETTING].split(","), "EXAMPLE.ORG")
    assert rules.user("eve@PARTNER.ORG") == "eve-of-partner"
    with pytest.raises(AuthenticationFailed, match="no rule"):
        rules.user("eve@PARTNERXORG")
