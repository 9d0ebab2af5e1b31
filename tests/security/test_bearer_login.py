"""A token from an issuer: asked for with the client's secret, which goes nowhere else."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from odradek.security.errors import AuthenticationFailed
from odradek.security.secure_network import read_login

JAAS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="me" clientSecret="my secret" scope="records";'
)
TOKEN = "head.body.signature"
NONSENSE = {
    "/list": "[1]",
    "/text": '"none"',
    "/deep": "[" * 100_000,
    "/page": "<html>",
    "/number": '{"access_token": 1}',
}


class Issuer(BaseHTTPRequestHandler):
    """Gives a token at /token, sends away at /moved, and notes who asks for what."""

    asked: ClassVar[list[tuple[str, str, str]]] = []

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.path, self.headers["Authorization"], form))
        self.send_response(302 if self.path == "/moved" else 200)
        if self.path == "/moved":
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(NONSENSE.get(self.path, json.dumps({"access_token": TOKEN})).encode())

    do_GET = do_POST  # noqa: N815 - what a redirected POST becomes

    def log_message(self, *line: object) -> None:
        """Say nothing."""


@pytest.fixture
def issuer() -> Iterator[str]:
    Issuer.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Issuer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def login(endpoint: str) -> Any:
    look = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": JAAS,
        "sasl.oauthbearer.token.endpoint.url": endpoint,
    }
    return read_login(look.get).new("broker")


def test_the_client_asks_with_its_secret(issuer: str) -> None:
    assert login(f"{issuer}/token").first() == f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode()
    [(_, authorization, form)] = Issuer.asked
    assert (authorization, form) == ("Basic bWU6bXkgc2VjcmV0", "grant_type=client_credentials&scope=records")


def test_the_secret_does_not_go_where_an_issuer_sends_us(issuer: str) -> None:
    with pytest.raises(AuthenticationFailed, match="302") as caught:
        login(f"{issuer}/moved")
    assert [path for path, *_ in Issuer.asked] == ["/moved"]
    assert "my secret" not in str(caught.value)


@pytest.mark.parametrize("path", NONSENSE)
def test_an_issuer_that_answers_nonsense_is_a_failed_login(issuer: str, path: str) -> None:
    """A list, or a text, was an error of ours."""
    with pytest.raises(AuthenticationFailed, match=r"access_token|no token from sasl\.oauthbearer"):
        login(f"{issuer}{path}")


@pytest.mark.parametrize("token", [None, "", b"abc", "abc\x01auth=Bearer another", "with blank"])
def test_what_an_application_gives_must_be_a_token(token: Any) -> None:
    look = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauth.token.provider": SimpleNamespace(token=lambda: token)}
    with pytest.raises(AuthenticationFailed, match="what came by is no token"):
        read_login(look.get).new("broker")


def test_an_application_that_fails_to_give_a_token_is_a_failed_login() -> None:
    """What it raised went through the client's own loops as a fault of theirs, and broke a consumer for good."""

    def token() -> str:
        raise KeyError("access_token")

    look = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauth.token.provider": SimpleNamespace(token=token)}
    with pytest.raises(AuthenticationFailed, match=r"sasl\.oauth\.token\.provider.*KeyError.*access_token") as caught:
        read_login(look.get).new("broker")
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("outcome", ["return 'made'", "raise AuthenticationFailed('no token')"])
def test_logging_in_when_the_main_thread_has_ended(outcome: str) -> None:
    """With it end the threads for logins; a client on another thread goes on, and connects again."""
    program = f"""
import asyncio, threading
from odradek.security.errors import AuthenticationFailed
from odradek.security.logins import Login, in_thread

def new(host):
    {outcome}

async def log_in():
    try:
        print(await in_thread(Login("OAUTHBEARER", new, blocks=True), "broker"))
    except AuthenticationFailed as error:
        print(error)

def outlive():
    threading.main_thread().join()
    asyncio.run(log_in())

threading.Thread(target=outlive).start()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{outcome.split(chr(39))[1]}\n", "")
