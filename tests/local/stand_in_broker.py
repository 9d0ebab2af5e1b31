"""What the tests of the cluster runner start in place of a broker: registers, becomes controller, answers Metadata."""

import asyncio
import signal
import struct
import sys
from pathlib import Path

from odradek.protocol.headers import decode_request, encode_response
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore
from odradek.zk_schema.lost_answers import create_ephemeral
from odradek.zk_schema.registration import Registrar, create_topmost_paths
from odradek.zk_schema.store import NodeExists, NoNode
from odradek.zk_schema.znodes.brokers import BROKER_IDS_PATH, BrokerRegistration, Endpoint, broker_path
from odradek.zk_schema.znodes.controller import CONTROLLER_PATH, ControllerRegistration


async def main(file: str) -> None:
    settings = dict(line.split("=", 1) for line in Path(file).read_text().splitlines())
    if settings.get("stand.in.fails") == settings["broker.id"]:
        sys.exit("the stand-in fails as it was told")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    host, port = settings["listeners"].removeprefix("PLAINTEXT://").split(":")
    clock = LoopClock(asyncio.get_running_loop())
    session_timeout_ms = int(settings["zookeeper.session.timeout.ms"])
    store = KazooStore(settings["zookeeper.connect"], clock, session_timeout_ms=session_timeout_ms)
    await store.start(float(settings["zookeeper.connection.timeout.ms"]))
    await create_topmost_paths(store)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            header, _ = decode_request(await reader.readexactly(struct.unpack(">i", size)[0]))
            answer = b"".join(encode_response(header.correlation_id, header.api_version, await metadata(store)))
            writer.write(struct.pack(">i", len(answer)) + answer)

    server = await asyncio.start_server(serve, host, int(port))
    broker_id = int(settings["broker.id"])
    registration = BrokerRegistration(broker_id, (Endpoint("PLAINTEXT", host, int(port)),))
    await Registrar(store, clock, registration).register()
    try:
        await create_ephemeral(store, CONTROLLER_PATH, ControllerRegistration(broker_id).encode())
    except NodeExists:
        print("somebody else is the controller", flush=True)
    await stop.wait()
    server.close()
    await store.close()
    Path(file).with_suffix(".stopped").touch()


async def metadata(store: KazooStore) -> MetadataResponse:
    brokers = []
    for name in await store.children(BROKER_IDS_PATH):
        found = BrokerRegistration.decode(int(name), (await store.get(broker_path(int(name))))[0]).endpoints[0]
        brokers.append(MetadataResponseBroker(node_id=int(name), host=found.host, port=found.port))
    try:
        controller_id = ControllerRegistration.decode((await store.get(CONTROLLER_PATH))[0]).broker_id
    except NoNode:
        controller_id = -1
    return MetadataResponse(brokers=brokers, controller_id=controller_id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
