"""The request log: there while its level asks for it, on a live broker, and not a step on the way otherwise."""

import json
import logging

import pytest

from odradek.aio import Admin
from odradek.client.admin.values import ConfigResource
from odradek.testing.virtual_run import VirtualCluster, run

NAME = "kafka.request.logger"


@pytest.mark.parametrize(("level", "traced"), [("DEBUG", False), ("TRACE", True)])
def test_a_level_that_is_changed_live_begins_and_ends_it(
    level: str, traced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(cluster: VirtualCluster) -> None:
        server = cluster.running[0].server
        plain = server.dispatch
        async with Admin(bootstrap_servers=cluster.bootstrap, client_id="somebody") as admin:
            await admin.alter_configs([ConfigResource("BROKER_LOGGER", "0", {NAME: level})])
            assert server.dispatch == server.sockets.dispatch != plain
            caplog.clear()
            await admin.describe_topics()
            lines = [record.getMessage() for record in caplog.records if record.name == NAME]
            await admin.alter_configs([ConfigResource("BROKER_LOGGER", "0", {NAME: "WARN"})])
        assert server.sockets.dispatch == plain == server.dispatch  # the plain way again
        assert any(line.startswith("Received request:") for line in lines) is traced
        *_, told = (json.loads(line.partition(":")[2]) for line in lines if line.startswith("Completed request:"))
        assert (told["requestApiKeyName"], told["clientId"], told["listener"]) == ("Metadata", "somebody", "PLAINTEXT")
        assert told["principal"] == "User:ANONYMOUS" and told["responseBytes"] > 0 <= told["totalTimeMs"]

    try:
        run(test, brokers=1)
    finally:
        logging.getLogger(NAME).setLevel(logging.WARNING)
