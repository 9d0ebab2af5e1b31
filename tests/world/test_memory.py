"""What the C library does with freed memory. Each in a process of its own: what it has learnt it never forgets."""

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
