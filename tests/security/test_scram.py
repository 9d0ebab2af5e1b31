"""SCRAM by the vectors of RFC 7677, and against every trick with its messages."""

import base64
import hmac
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.security.errors import AuthenticationFailed, InvalidCredentials
from odradek.security.scram import (
    MECHANISMS,
    ScramClient,
    ScramIdentity,
    ScramServer,
    decode_credential,
    encode_credential,
    new_credential,
    salted_password,
)

SHA_256 = "SCRAM-SHA-256"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CREDENTIAL = new_credential(SHA_256, "pencil", SALT, 4096)
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def server(user: str = "user", mechanism: str = SHA_256) -> ScramServer:
    def find(asked: str, name: str, token: bool) -> ScramIdentity | None:
        known = asked == mechanism and name == user and not token
        return ScramIdentity(CREDENTIAL, name) if known else None

    return ScramServer(mechanism, find, SERVER_NONCE, b"decoy")


def test_the_exchange_of_rfc_7677() -> None:
    client, serving = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE), server()
    first = client.first()
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = serving.evaluate(first)
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = client.respond(challenge)
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not serving.complete
    last = serving.evaluate(final)
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.respond(last) is None
    assert serving.complete and client.complete and serving.principal == "user"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_names_with_marks_in_them(mechanism: str) -> None:
    name = "CN=a,O=b"
    credential = new_credential(mechanism, "päss, word=", os.urandom(16), 4096)
    serving = ScramServer(mechanism, lambda *asked: ScramIdentity(credential, asked[1]), "server", b"d")
    client = ScramClient(mechanism, name, "päss, word=", "client")
    final = client.respond(serving.evaluate(client.first()))
    assert final is not None
    client.respond(serving.evaluate(final))
    assert client.complete and serving.principal == name


def test_a_credential_of_fewer_iterations_than_kafka_allows_lets_nobody_in() -> None:
    """It was offered to clients: whoever listens to a login of librdkafka, which takes it, can guess the password."""
    weak = new_credential(SHA_256, "pencil", SALT, 4095)
    serving = ScramServer(SHA_256, lambda *asked: ScramIdentity(weak, asked[1]), SERVER_NONCE, b"decoy")
    with pytest.raises(InvalidCredentials, match="4095 iterations"):
        serving.evaluate(ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE).first())


@pytest.mark.parametrize(("user", "password"), [("user", "pencils"), ("nobody", "pencil"), ("user", "")])
def test_who_is_unknown_hears_the_same_as_who_is_wrong(user: str, password: str) -> None:
    salts = set()
    for _ in range(2):
        serving, client = server(), ScramClient(SHA_256, user, password, CLIENT_NONCE)
        challenge = serving.evaluate(client.first())
        salts.add(challenge)
        final = client.respond(challenge)
        assert final is not None
        with pytest.raises(InvalidCredentials, match="the proof does not fit"):
            serving.evaluate(final)
        assert not serving.complete
    assert len(salts) == 1, "asked twice the same salt comes, as for one who is known"


def final_message(first_bare: str, challenge: str, without_proof: str) -> bytes:
    """The last message of who knows the password."""
    message = f"{first_bare},{challenge},{without_proof}".encode()
    key = hmac.digest(salted_password(SHA_256, "pencil", SALT, 4096), b"Client Key", "sha256")
    signature = hmac.digest(CREDENTIAL.stored_key, message, "sha256")
    proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True))).decode()
    return f"{without_proof},p={proof}".encode()


def test_a_client_that_repeats_its_nonce_is_let_in() -> None:
    """As old librdkafka does (2.0.2), and Kafka allows."""
    serving = server()
    challenge = serving.evaluate(ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE).first()).decode()
    without_proof = f"c=biws,r={CLIENT_NONCE}{CLIENT_NONCE}{SERVER_NONCE}"
    final = final_message(f"n=user,r={CLIENT_NONCE}", challenge, without_proof)
    assert serving.evaluate(final).startswith(b"v=")
    assert serving.complete


@pytest.mark.parametrize("told_again", ["n,a=user,", "n,,"])
def test_who_names_himself_as_the_one_to_act_for_is_let_in(told_again: str) -> None:
    """Clients in Go can be told to (`SCRAMAuthzID` of Sarama); they say it again in the last message, RFC 5802 has it
    so. Who knows the password was refused for that."""
    serving = server()
    challenge = serving.evaluate(f"n,a=user,n=user,r={CLIENT_NONCE}".encode()).decode()
    channel = base64.b64encode(told_again.encode()).decode()
    without_proof = f"c={channel},r={CLIENT_NONCE}{SERVER_NONCE}"
    final = final_message(f"n=user,r={CLIENT_NONCE}", challenge, without_proof)
    assert serving.evaluate(final).startswith(b"v=")
    assert serving.complete and serving.principal == "user"


@pytest.mark.parametrize(
    ("channel", "nonce"),
    [
        ("biws", f"{CLIENT_NONCE}x{SERVER_NONCE}"),
        ("biws", SERVER_NONCE),
        ("biws", f"{CLIENT_NONCE}{SERVER_NONCE}x"),
        (base64.b64encode(b"n,a=bob,").decode(), f"{CLIENT_NONCE}{SERVER_NONCE}"),
        (base64.b64encode(b"y,,").decode(), f"{CLIENT_NONCE}{SERVER_NONCE}"),
    ],
)
def test_the_proof_is_not_enough_where_the_last_message_is_of_another_exchange(channel: str, nonce: str) -> None:
    serving = server()
    challenge = serving.evaluate(f"n,,n=user,r={CLIENT_NONCE}".encode()).decode()
    with pytest.raises(InvalidCredentials, match="does not fit"):
        serving.evaluate(final_message(f"n=user,r={CLIENT_NONCE}", challenge, f"c={channel},r={nonce}"))
    assert not serving.complete


def test_a_token_says_until_when_and_for_whom() -> None:
    tokens: list[bool] = []

    def find(mechanism: str, name: str, token: bool) -> ScramIdentity:
        tokens.append(token)
        return ScramIdentity(CREDENTIAL, "User:alice", 9000)

    serving = ScramServer(SHA_256, find, SERVER_NONCE, b"decoy")
    first = f"n=an-id,r={CLIENT_NONCE},tokenauth=true"
    challenge = serving.evaluate(f"n,,{first}".encode()).decode()
    assert serving.expires_ms is None, "nobody has proved anything yet"
    serving.evaluate(final_message(first, challenge, f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE}"))
    assert (tokens, serving.is_token, serving.principal, serving.expires_ms) == ([True], True, "User:alice", 9000)


def final_of(change: str) -> bytes:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    final = client.respond(server().evaluate(client.first()))
    assert final is not None
    old, _, new = change.partition(" -> ")
    assert old.encode() in final
    return final.replace(old.encode(), new.encode())


@pytest.mark.parametrize(
    "change",
    [
        "c=biws -> c=eSws",
        "c=biws -> c=cD10bHMtdW5pcXVlLCw=",
        f"{CLIENT_NONCE} -> x",
        f"{SERVER_NONCE} -> ",
        ",p=dHzb -> ,p=AHzb",
        ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ= -> ",
        ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ= -> ,p=",
        ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ= -> ,p=AAAA",
        "c=biws, -> ",
    ],
)
def test_a_final_message_that_was_changed(change: str) -> None:
    serving = server()
    serving.evaluate(ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE).first())
    with pytest.raises(InvalidCredentials):
        serving.evaluate(final_of(change))
    assert not serving.complete


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"y,,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,,m=x,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=u,r=",
        b"n,,n=a=b,r=x",
    ],
)
def test_first_messages_that_are_refused(first: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        server().evaluate(first)


def test_nobody_acts_for_another() -> None:
    with pytest.raises(AuthenticationFailed, match="authorization id"):
        server().evaluate(b"n,a=admin,n=user,r=x")


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "another nonce"),
        (f"r={CLIENT_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(), "another nonce"),
        (f"r={CLIENT_NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1".encode(), "1 SCRAM iterations"),
        (f"r={CLIENT_NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999".encode(), "iterations"),
        (b"e=other-error", "not understood"),
    ],
)
def test_a_server_that_cheats(challenge: bytes, said: str) -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    client.first()
    with pytest.raises(AuthenticationFailed, match=said):
        client.respond(challenge)


def test_a_server_that_does_not_know_the_password() -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    client.respond(server().evaluate(client.first()))
    with pytest.raises(AuthenticationFailed, match="it is not who it says it is"):
        client.respond(b"v=" + base64.b64encode(bytes(32)))
    assert not client.complete


def test_credentials_as_kafka_writes_them() -> None:
    text = encode_credential(CREDENTIAL)
    assert text == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    assert decode_credential(text) == CREDENTIAL
    assert "WG5d" not in repr(CREDENTIAL)
    for bad in ("", "salt=x", text.replace("iterations=4096", "iterations=x"), text.replace("salt=W", "salt=!")):
        with pytest.raises(ValueError, match="not a SCRAM credential"):
            decode_credential(bad)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_get_anybody_in(first: bytes, final: bytes) -> None:
    serving = server()
    for message in (first, b"n,,n=user,r=abc", final):
        try:
            serving.evaluate(message)
        except (InvalidCredentials, AuthenticationFailed):
            continue
    assert not serving.complete
