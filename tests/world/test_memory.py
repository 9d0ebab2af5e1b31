"""What the C library does with freed memory, and what a process does that has no more. Each in one of its own: what it
has learnt it never forgets."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from odradek.world.memory import reuse_freed_memory
if sys.argv[1] == "reused":
    reuse_freed_memory()
def faults():
    for _ in range(100):
        batches = [b"x" * 65_000 for _ in range(6)]
        del batches
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
print(faults() - before)
"""
COST = """
import resource
from odradek.world.memory import reuse_freed_memory
def usage():
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_minflt, found.ru_maxrss
before = usage()
for _ in range(3):
    reuse_freed_memory()
print(*(after - first for after, first in zip(usage(), before)))
"""


@pytest.mark.parametrize("name", ["reused", "returned"])
def test_freed_memory_is_reused(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True, check=True)
    assert (int(done.stdout) < 100) is (name == "reused"), done.stdout


def test_to_say_so_takes_no_memory() -> None:
    """Thirty-two megabytes of zeros were written at each producer's start."""
    done = subprocess.run([sys.executable, "-c", COST], capture_output=True, text=True, check=True)
    faults, kilobytes = map(int, done.stdout.split())
    assert (faults < 100, kilobytes < 1_000) == (True, True), done.stdout


EXHAUSTED = """
import logging, resource, sys, threading
import uvloop
from odradek.world.memory import end_when_exhausted
logging.basicConfig()
end_when_exhausted()
def fail(error):
    raise error
class Raising:
    def __del__(self):
        raise MemoryError
async def hoard():
    import asyncio
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    hoarded = []
    def more():
        while True:
            hoarded.append(object())
    asyncio.get_running_loop().call_soon(more)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
match sys.argv[1]:
    case "logged":
        logging.getLogger("some").error("a connection is closed", exc_info=MemoryError())
    case "in a thread":
        thread = threading.Thread(target=fail, args=[MemoryError()])
        thread.start()
        thread.join()
    case "nowhere to go":
        Raising()
    case "in a callback":
        uvloop.run(hoard())
    case "others":
        logging.getLogger("some").error("a connection is closed", exc_info=ValueError("of one request"))
        thread = threading.Thread(target=fail, args=[KeyError("of one thread")])
        thread.start()
        thread.join()
print("goes on")
"""


@pytest.mark.parametrize("way", ["logged", "in a thread", "nowhere to go", "in a callback"])
def test_a_process_without_memory_ends_and_says_so(way: str) -> None:
    """A broker was left that turned round in its loop, without a session in ZooKeeper, and deaf to signals."""
    done = subprocess.run([sys.executable, "-c", EXHAUSTED, way], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("there is no memory left: this process ends") == 1, done.stderr


def test_other_errors_end_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", EXHAUSTED, "others"], capture_output=True, text=True, check=True)
    assert done.stdout == "goes on\n"
    assert "ValueError: of one request" in done.stderr and "KeyError: 'of one thread'" in done.stderr
