"""Who may ask: other sites, other names of this machine, and whoever has no token."""

from collections.abc import Mapping

import pytest

from odradek.console.guard import HEADERS, Guard, new_token

GUARD = Guard(9090, "secret", ("box.example",))
PRIVATE = Guard(9090, "secret", private=True)
OURS = {"Host": "127.0.0.1:9090"}
TOKEN = {"Authorization": "Bearer secret", "Content-Type": "application/json"}


@pytest.mark.parametrize("host", ["127.0.0.1:9090", "localhost:9090", "[::1]:9090", "box.example:9090"])
def test_names_of_ours(host: str) -> None:
    assert GUARD.refusal({"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}) is None


@pytest.mark.parametrize("host", ["fd00::5", "[fd00::5]"])
def test_an_ipv6_address_has_brackets_in_the_header(host: str) -> None:
    assert Guard(9090, "secret", (host,)).refusal({"Host": "[fd00::5]:9090"}) is None


def test_browsers_write_a_name_in_small_letters() -> None:
    assert Guard(9090, "secret", ("Box.Example",)).refusal({"Host": "box.example:9090"}) is None


def test_the_usual_port_of_http_is_not_in_the_header() -> None:
    assert Guard(80, "secret").refusal({"Host": "localhost", "Origin": "http://localhost"}) is None
    assert Guard(80, "secret").refusal({"Host": "evil.example"}) is not None


def test_behind_a_proxy_on_the_usual_port_there_is_none_in_the_header() -> None:
    """`--allow-host` named it in vain."""
    headers = {"Host": "box.example", "Origin": "https://box.example", "Sec-Fetch-Site": "same-origin"}
    assert GUARD.refusal(headers) is None
    assert GUARD.refusal({**OURS, "Origin": "https://box.example"}) is None, "the proxy has put in another Host"
    own = Guard(9090, "secret", ("127.0.0.1", "::1"))
    assert all(own.refusal({"Host": host}) is not None for host in ("127.0.0.1", "[::1]")), "another server's"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "evil.example:9090"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:9091"},
        {"Host": "127.0.0.1:9090.evil.example"},
        OURS | {"Origin": "http://evil.example"},
        OURS | {"Origin": "null"},
        OURS | {"Origin": "http://127.0.0.1:8080"},
        OURS | {"Sec-Fetch-Site": "cross-site"},
        OURS | {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_others_are_refused(headers: Mapping[str, str]) -> None:
    assert GUARD.refusal(headers) is not None
    assert GUARD.refusal({**headers, **TOKEN}, changes=True) is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json"},
        {"Content-Type": "application/json", "Authorization": "Bearer "},
        {"Content-Type": "application/json", "Authorization": "Bearer secreT"},
        {"Content-Type": "application/json", "Authorization": "Bearer sécret"},
        {"Content-Type": "text/plain", "Authorization": "Bearer secret"},
        {"Authorization": "Bearer secret"},
    ],
)
def test_an_action_needs_the_token_and_a_content_type_that_no_form_can_send(headers: Mapping[str, str]) -> None:
    assert GUARD.refusal({**OURS, **headers}, changes=True) is not None
    assert GUARD.refusal({**OURS, **TOKEN}, changes=True) is None


def test_where_it_is_private_reading_needs_the_token_but_the_page_does_not() -> None:
    assert PRIVATE.refusal(OURS) is not None
    assert PRIVATE.refusal({**OURS, **TOKEN}) is None
    assert PRIVATE.refusal({**OURS, "Sec-Fetch-Site": "cross-site"}, public=True) is None


def test_tokens_differ() -> None:
    assert len({new_token() for _ in range(100)}) == 100


def test_the_policy_lets_nothing_in_but_our_own_files() -> None:
    policy = dict(part.strip().partition(" ")[::2] for part in HEADERS["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert policy["require-trusted-types-for"] == "'script'"


def test_a_token_that_is_no_text_is_refused() -> None:
    """It raised UnicodeEncodeError."""
    assert "token" in (PRIVATE.refusal({**OURS, "Authorization": "Bearer \udcff"}) or "")
