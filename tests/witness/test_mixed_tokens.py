"""Users and delegation tokens of a cluster that has a broker of Kafka and one of ours: whoever made them, both obey."""

from collections.abc import Callable
from typing import Any

import pytest

import odradek
from odradek.local.ports import free_ports
from odradek.testing.foreign.stage import Stage
from odradek.testing.patience import wait_until

pytestmark = pytest.mark.cluster

MECHANISM = "SCRAM-SHA-256"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SAFE:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISM,
    "listener.name.safe.scram-sha-256.sasl.jaas.config": f"{MODULE};",
    "delegation.token.secret.key": "of both",
}
MINUTE_MS = 60_000


def admin(address: str, user: str, password: str, options: str = "") -> odradek.KafkaAdminClient:
    look: dict[str, Any] = {"bootstrap_servers": address, "request_timeout_ms": 20_000}
    jaas = f'{MODULE} username="{user}" password="{password}" {options};'
    return odradek.KafkaAdminClient(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism=MECHANISM, sasl_jaas_config=jaas, **look
    )


def comes_in(address: str, token: Any) -> bool:
    return is_let_in(address, token.token_id, token.password, "tokenauth=true")


def is_let_in(address: str, name: str, password: str, more: str = "") -> bool:
    with admin(address, name, password, more) as client:
        try:
            client.list_topics()
        except odradek.KafkaError as error:
            assert "credentials" in str(error) or "tokenId" in str(error), error
            return False
    return True


def test_tokens_of_either_broker_are_both_brokers(new_stage: Callable[..., Stage]) -> None:
    stages = [new_stage(broker, **SETTINGS) for broker in (0, 1)]
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    listeners = [f"PLAINTEXT://{stage.address},SAFE://{at}" for stage, at in zip(stages, addresses, strict=True)]
    kafka, ours = stages[0].kafka(listeners=listeners[0]), stages[1].odradek(listeners=listeners[1])
    alice = odradek.UserScramCredentialUpsertion("alice", odradek.ScramMechanism.SCRAM_SHA_256, "secret")
    with odradek.KafkaAdminClient(bootstrap_servers=stages[0].address) as anybody:
        anybody.alter_user_scram_credentials([alice])
    for address in addresses:
        wait_until(lambda: is_let_in(address, "alice", "secret"), "the credential that the other broker took")  # noqa: B023
    for made_by, other in ((addresses[0], addresses[1]), (addresses[1], addresses[0])):
        with admin(made_by, "alice", "secret") as there, admin(other, "alice", "secret") as here:
            token = there.create_delegation_token(["User:bob"])
            wait_until(lambda: comes_in(other, token), "a token of the other broker")  # noqa: B023
            [shown] = here.describe_delegation_token(["User:alice"])
            assert shown == token
            expires_ms = here.renew_delegation_token(token.hmac, MINUTE_MS)
            assert expires_ms < token.expiry_timestamp_ms
            wait_until(
                lambda: [one.expiry_timestamp_ms for one in there.describe_delegation_token()] == [expires_ms],  # noqa: B023
                "the token as the other broker has renewed it",
            )
            here.expire_delegation_token(token.hmac)
            wait_until(lambda: not comes_in(made_by, token), "the end of the token")  # noqa: B023
    ours.stop()
    kafka.stop()
    assert not [one for one in ours.complaints() if "refusing" not in one]
