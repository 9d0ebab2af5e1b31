"""Program that deploy/secure.yml runs once. It makes the files and users of a secure cluster of containers.

The files are in /etc/odradek, the users in ZooKeeper.

python -m odradek.local.secure_container ZOOKEEPER
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from odradek.broker.settings.properties import property_line
from odradek.local.secure import SecureFiles, write_private
from odradek.world.clock import LoopClock
from odradek.zk_schema.kazoo_store import KazooStore

DIRECTORY: Final = Path("/etc/odradek")
OWN_SETTINGS: Final = Path("/usr/local/lib/odradek/server.properties")
USER_ID: Final = 1000
"""User as which brokers run."""
BROKERS: Final = 3
CONNECT_MS: Final = 30_000


async def make(zookeeper: str) -> None:
    """Make the files and users that are not there yet. Raises ConnectionLost."""
    files = SecureFiles.make(DIRECTORY, BROKERS)
    settings = files.common_settings(("inside", "outside"))
    lines = "".join(property_line(name, text) for name, text in settings.items())
    write_private(DIRECTORY / "server.properties", f"{OWN_SETTINGS.read_text()}\n{lines}".encode())
    for path in (DIRECTORY, *DIRECTORY.iterdir()):
        os.chown(path, USER_ID, USER_ID)
    clock = LoopClock(asyncio.get_running_loop())
    store = KazooStore(zookeeper, clock, session_timeout_ms=CONNECT_MS)
    await store.start(CONNECT_MS)
    try:
        for user in await files.write_to(store, clock):
            print(f"{user} has been changed: {user}.properties will not log in")
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(make(sys.argv[1]))
