"""Coverage-guided fuzzing of what strangers say to a SASL listener: frames, SaslHandshake, the mechanisms' messages.

    pip install atheris
    python bench/fuzz_sasl.py [--minutes 30] [--corpus DIR]

The bytes are those of one connection, as after TLS. A run fails when anything is raised but what the connection is
closed for, when somebody gets in (nobody can know the secrets, which are new for each run), or when an answer is larger
than what was sent by more than ANSWER_BYTES_MAX. What was found is kept as `DIR/crash-…`, and played by naming the
file: `python bench/fuzz_sasl.py DIR/crash-…`. Exit code 0 when nothing was found; 2 where atheris is not installed.
"""

import argparse
import contextlib
import logging
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import this_tree  # noqa: F401

try:
    import atheris
except ImportError:
    print("bench/fuzz_sasl.py: atheris is not installed: pip install atheris", file=sys.stderr)
    sys.exit(2)

with atheris.instrument_imports(include=["odradek", "jwt"]):
    from odradek.broker.network.boundary import UnsupportedRequestError
    from odradek.broker.network.sasl_gate import SaslGate, State
    from odradek.broker.security.bearer_tokens import SignedTokens, UnsecuredTokens
    from odradek.broker.security.sasl_listener import SaslListener
    from odradek.protocol.connection import framed
    from odradek.protocol.headers import RequestHeader, encode_request
    from odradek.protocol.messages.api_versions import ApiVersionsRequest
    from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
    from odradek.security.errors import InvalidCredentials
    from odradek.security.scram import ScramIdentity, new_credential
    from odradek.testing.foreign.logins import Issuer

FRAME_BYTES_MAX, ANSWER_BYTES_MAX = 524_288, 4096
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
WORDS = (*MECHANISMS, "n,,n=alice,r=", "c=biws,r=", ",p=", "n,,\x01auth=Bearer ", "\x01\x01", "tokenauth=true", "alice")


SIGNED = b"eyJhbGciOiJFUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJhIiwiZXhwIjo5OTk5OTk5OTk5fQ.AAAA"
UNSIGNED = b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjo5OTk5OTk5OTk5fQ."


class Stranger:
    """A listener whose secrets nobody knows, and its connections, one for each input."""

    def __init__(self, folder: Path) -> None:
        issuer = Issuer(folder)
        settings: dict[str, Any] = {
            "sasl.enabled.mechanisms": list(MECHANISMS),
            "sasl.server.max.receive.size": FRAME_BYTES_MAX,
            "plain.sasl.jaas.config": f'x.PlainLoginModule required user_alice="{secrets.token_hex()}";',
            "sasl.oauthbearer.clock.skew.seconds": 30,
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": 1 << 40,
        }
        self.unsecured = UnsecuredTokens({})
        password, salt = secrets.token_hex(), secrets.token_bytes(20)
        alice = {one: ScramIdentity(new_credential(one, password, salt, 4096), "alice") for one in SCRAM}
        self._listener = SaslListener(
            settings.get,
            lambda mechanism, name, token: alice.get(mechanism) if name == "alice" and not token else None,
            lambda look, jaas: SignedTokens(issuer.keys.as_uri(), look),
        )

    def plays(self, data: bytes) -> None:
        """Give the bytes to a new connection, and to what reads tokens that nobody has signed."""
        clock = SimpleNamespace(monotonic_ms=lambda: 0.0, now_ms=lambda: 0)
        client: Any = SimpleNamespace(peer="stranger", principal=None, authenticated=self._got_in)
        gate = SaslGate(client, self._listener, clock, 0, lambda frame, _: [], lambda: None)  # type: ignore[arg-type]
        with contextlib.suppress(InvalidCredentials):
            self.unsecured(data.decode("latin-1"))
        with contextlib.suppress(UnsupportedRequestError):
            for frame in frames(data):
                answer = gate(memoryview(bytearray(frame)), client)
                if gate.state is State.REFUSED:
                    outcome: Any = answer
                    outcome.outcome.close()
                    return
                size = sum(map(len, answer))  # type: ignore[arg-type]
                assert size <= len(frame) + ANSWER_BYTES_MAX, f"{size} bytes answer {len(frame)}"

    @staticmethod
    def _got_in(*who: object, **how: object) -> None:
        raise AssertionError(f"somebody got in as {who}")


def frames(data: bytes) -> Iterator[bytes]:
    """Cut the bytes of a connection as the broker does: behind each size, up to one that is not allowed."""
    at = 0
    while len(data) - at >= 4:
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if not 0 <= size <= min(FRAME_BYTES_MAX, len(data) - at - 4):
            return
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def examples(folder: Path) -> None:
    """Write conversations that begin well: each mechanism's first message, with and without headers."""
    firsts = {
        "PLAIN": b"\0alice\0wrong",
        **dict.fromkeys(SCRAM, b"n,,n=alice,r=abcdef"),
        "OAUTHBEARER": b"n,,\x01auth=Bearer " + SIGNED + b"\x01\x01",
    }
    for mechanism, first in firsts.items():
        for version in (0, 1):
            said = [_request(ApiVersionsRequest(), 3), _request(SaslHandshakeRequest(mechanism=mechanism), version)]
            for message in (first, b"c=biws,r=abcdefx,p=AAAA"):
                authenticate = SaslAuthenticateRequest(auth_bytes=message)
                said.append(_request(authenticate, 2) if version else b"".join(framed([message])))
            (folder / f"{mechanism}-{version}").write_bytes(b"".join(said))
    (folder / "token").write_bytes(UNSIGNED)


def _request(message: Any, version: int) -> bytes:
    return b"".join(framed(encode_request(RequestHeader(message.API_KEY, version, 1, "fuzz"), message)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="minutes to run")
    parser.add_argument("--corpus", type=Path, help="folder of the corpus, which is kept; default: a temporary one")
    parser.add_argument("crash", nargs="?", type=Path, help="play this file alone, which an earlier run has found")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as temporary:
        stranger = Stranger(Path(temporary))
        if given.crash is not None:
            stranger.plays(given.crash.read_bytes())
            print("nothing is wrong with it any more")
            return
        corpus = given.corpus or Path(temporary) / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        examples(corpus)
        words = Path(temporary) / "words"
        words.write_text("".join(f'"{_quoted(word)}"\n' for word in WORDS))
        options = [
            f"-max_total_time={60 * given.minutes:.0f}",
            f"-dict={words}",
            "-max_len=16384",
            "-rss_limit_mb=1024",
        ]
        atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={corpus}/", str(corpus)], stranger.plays)
        atheris.Fuzz()


def _quoted(word: str) -> str:
    return "".join(one if one.isalnum() else f"\\x{ord(one):02x}" for one in word)


if __name__ == "__main__":
    main()
