"""Instructions that a broker executes for a request, counted by valgrind: the same on a busy machine as on a quiet one.

    python bench/instructions.py

A broker on a virtual clock, network and disk answers the same request FEW times and MANY times; the difference is the
requests' alone (the client, in the same process, sends ready bytes and looks at nothing). Beside it stands the broker
that counts and notes nothing (bench/unmeasured). Without garbage collection. About ten minutes of processor time.
"""

import asyncio
import gc
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import this_tree  # noqa: F401

HERE = Path(__file__).resolve().parent
FEW, MANY = 50, 350
ROWS = ("produce", "fetch")
WATCHING_COSTS = 1.02


def play(row: str, times: int) -> None:
    """Ask so many requests of a kind, one after another, of a broker in this process, which has a `metrics.port`."""
    from odradek.protocol.headers import RequestHeader, encode_request
    from odradek.testing import way_through as way
    from odradek.testing.embedded import EmbeddedCluster
    from odradek.testing.scraping import METRICS_PORT
    from odradek.testing.virtual_clock import VirtualClock, run_virtual

    message, version = (
        (way.produce_request(), way.PRODUCE_VERSION) if row == "produce" else (way.fetch_request(), way.FETCH_VERSION)
    )
    body = b"".join(encode_request(RequestHeader(message.API_KEY, version, 1, "bench"), message))
    frame = struct.pack(">i", len(body)) + body

    async def main(clock: VirtualClock) -> None:
        async with EmbeddedCluster(clock, 1, {"metrics.port": str(METRICS_PORT)}) as cluster:
            await way.create_topic(cluster, [0])
            client = await way.connect(cluster, cluster.brokers[0])
            await client.ask(way.produce_request(), way.PRODUCE_VERSION)
            client.close()
            endpoint = await cluster.network.host("client").connect("broker-0", cluster.port)
            answered, taken = asyncio.Event(), memoryview(bytearray(1 << 16))

            def take() -> None:
                endpoint.receive_into(taken)
                answered.set()

            endpoint.on_readable(take)
            gc.disable()  # a collection more in one of the runs would be all that is seen
            for _ in range(times):
                answered.clear()
                endpoint.send(frame)
                await answered.wait()

    run_virtual(main)


def counted(program: list[str], path: str) -> int:
    """Return the instructions of a Python program with its arguments, with `path` as its PYTHONPATH."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable]
    environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    said = subprocess.run([*command, *program], env=environment, capture_output=True, text=True, check=True).stderr
    found = re.search(r"I +refs: +([\d,]+)", said)
    if found is None:
        raise SystemExit(f"valgrind counted nothing:\n{said}")
    return int(found[1].replace(",", ""))


def per_request(row: str, path: str) -> float:
    """Return the instructions for one request of a row, with `path` as the PYTHONPATH."""
    few, many = (counted([__file__, row, str(times)], path) for times in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def main() -> int:
    met = True
    print(f"{'instructions':14} {'odradek':>12} {'unmeasured':>12}   {'ratio':>6}", flush=True)
    for row in ROWS:
        ours, theirs = (per_request(row, path) for path in (str(HERE.parent), f"{HERE / 'unmeasured'}:{HERE.parent}"))
        good = ours / theirs <= WATCHING_COSTS
        verdict = f"goal <= {WATCHING_COSTS}  {'met' if good else 'MISSED'}"
        print(f"{row:14} {ours:12,.0f} {theirs:12,.0f}   {ours / theirs:6.3f}   {verdict}", flush=True)
        met = met and good
    return 0 if met else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        play(sys.argv[1], int(sys.argv[2]))
    else:
        sys.exit(main())
