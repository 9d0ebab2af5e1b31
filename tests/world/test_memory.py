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


@pytest.mark.parametrize("name", ["reused", "returned"])
def test_freed_memory_is_reused(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True, check=True)
    assert (int(done.stdout) < 100) is (name == "reused"), done.stdout
