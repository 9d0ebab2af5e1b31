"""Check whether the broker of this container is at work: it answers Metadata, and finds itself in the answer.

It is in the answer when it is registered in ZooKeeper and a controller has told it so. Where listeners want TLS or a
login, `/ready` at `metrics.port` is asked instead. Exit code 0, or 1 with the reason, which `docker inspect` shows.
"""

import logging
import socket
import sys
from os import environ

from entrypoint import overrides, properties_file

from odradek.broker.config import BrokerConfig, load_config
from odradek.protocol.connection import framed
from odradek.protocol.headers import RequestHeader, decode_response, encode_request
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

TIMEOUT_SECONDS = 4.0
VERSION = 9
EVERY_INTERFACE = ("", "0.0.0.0", "::")


def main() -> int:
    logging.disable(logging.WARNING)  # the broker has said it
    config = load_config(properties_file(), overrides(environ))
    try:
        trouble = what_is_wrong(config)
    except OSError as error:
        trouble = f"no answer: {error}"
    print(trouble or "registered and answering")
    return 1 if trouble else 0


def what_is_wrong(config: BrokerConfig) -> str:
    """Return in a few words what is wrong; "" when nothing is. Raises OSError when there is no answer."""
    name = config.inter_broker_listener_name
    [bound] = [listener for listener in config.listeners if listener.name == name]
    if bound.protocol != "PLAINTEXT":
        return ask_readiness(config.metrics_host, config.metrics_port)
    [advertised] = [listener for listener in config.advertised_listeners if listener.name == name]
    host = "127.0.0.1" if bound.host in EVERY_INTERFACE else bound.host
    answer = ask_metadata(host, bound.port)
    if answer.controller_id < 0:
        return "no controller"
    if (advertised.host, advertised.port) not in {(broker.host, broker.port) for broker in answer.brokers}:
        return "not registered"
    return ""


def ask_readiness(host: str, port: int) -> str:
    """Return what the broker itself says is wrong; "" when nothing is. Raises OSError."""
    if not port:
        return "metrics.port is not set: where listeners are not PLAINTEXT there is nothing else to ask"
    with socket.create_connection((host or "127.0.0.1", port), TIMEOUT_SECONDS) as connection:
        connection.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
        with connection.makefile("rb") as received:
            head, _, reason = received.read().partition(b"\r\n\r\n")
    return "" if head.split()[1:2] == [b"200"] else reason.decode(errors="replace").strip() or "not ready"


def ask_metadata(host: str, port: int) -> MetadataResponse:
    """Ask for the brokers alone, no topics. Raises OSError."""
    request = encode_request(RequestHeader(MetadataRequest.API_KEY, VERSION, 1, "health"), MetadataRequest(topics=[]))
    with socket.create_connection((host, port), TIMEOUT_SECONDS) as connection, connection.makefile("rb") as received:
        connection.sendall(b"".join(framed(request)))
        size = int.from_bytes(received.read(4), "big")
        _, answer = decode_response(MetadataRequest.API_KEY, VERSION, received.read(size))
    assert isinstance(answer, MetadataResponse)
    return answer


if __name__ == "__main__":
    sys.exit(main())
