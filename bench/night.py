"""Looks for what nobody has seen: the simulator, crashes, mutated requests, chaos of brokers and of consumers, fuzzing.

    python bench/night.py [--minutes 30] [--first SEED]

Each of the six gets so many minutes; the first five go from fresh seeds. A seed that fails is printed with what went
wrong, and kept in `tests/seeds/`: `make test` replays it from then on, but for chaos, which is of real processes and
does not repeat itself. The sixth is bench/fuzz_sasl.py, where atheris is installed. Exit code 1 when one has failed.
"""

import argparse
import os
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import this_tree  # noqa: F401

from odradek.broker.requests.registry import SERVED
from odradek.testing.crashes.run import run_case, run_fault_case
from odradek.testing.mutated_requests import mutate
from odradek.testing.seeds import corpus, remember
from odradek.testing.simulation.plans import varied_plan
from odradek.testing.simulation.run import simulate

REPOSITORY = Path(__file__).resolve().parents[1]
CHAOS = Path(__file__).with_name("chaos.py")
FUZZ = Path(__file__).with_name("fuzz_sasl.py")
FUZZ_LACKING = 2
"""Exit code of the fuzzing where atheris is not installed; it has said so."""
CHAOS_SECONDS = 120
CONNECTOR_ROUNDS = 12
LINES = 60


@dataclass(frozen=True)
class Kind:
    """Kind of run, by the name of its file of seeds."""

    name: str
    wrong: Callable[[int], str]
    """Plays a seed: what went wrong, nothing when all is well."""
    words: Callable[[int], tuple[object, ...]] = lambda seed: (seed,)
    """The line that keeps the seed."""


def simulation(seed: int) -> str:
    report = simulate(varied_plan(seed))
    return "" if report.violation is None else report.text(LINES)


def crashes(seed: int) -> str:
    """Stops within any call, and disks that fail."""
    reports = [run(seed) for run in (run_case, run_fault_case)]
    return "\n".join(report.text(LINES) for report in reports if report.violation is not None)


def api_of(seed: int) -> int:
    """The requests of one API for each seed, in turn."""
    return sorted(SERVED)[seed % len(SERVED)]


def chaos(seed: int) -> str:
    command = [sys.executable, str(CHAOS), "--seconds", str(CHAOS_SECONDS), "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return "\n".join(done.stdout.splitlines()[-LINES:]) if done.returncode else ""


def connectors(seed: int) -> str:
    """The test of a group of consumers under kills, with more rounds than `make test` has time for."""
    test = "tests/client/zookeeper/test_connector_chaos.py"
    given = {"ODRADEK_CHAOS_SEED": str(seed), "ODRADEK_CHAOS_ROUNDS": str(CONNECTOR_ROUNDS)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=os.environ | given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    return "\n".join(done.stdout.splitlines()[-LINES:]) if done.returncode else ""


CHAOTIC = (Kind("chaos", chaos), Kind("connectors", connectors))
"""Kinds that play with real processes: a seed does not repeat itself, so the night alone plays those that are kept."""
KINDS = (
    Kind("simulation", simulation),
    Kind("crashes", crashes),
    Kind("requests", lambda seed: "\n".join(mutate(api_of(seed), seed)), lambda seed: (seed, api_of(seed))),
    *CHAOTIC,
)


def play(kind: Kind, seed: int) -> bool:
    """Make one run; tell whether all went well. What did not is printed and kept."""
    try:
        wrong = kind.wrong(seed)
    except Exception:  # noqa: BLE001 - whatever ends a run is a finding
        wrong = traceback.format_exc()
    if wrong:
        kept = "kept" if remember(kind.name, *kind.words(seed)) else "known"
        print(f"{kind.name} {' '.join(map(str, kind.words(seed)))} ({kept}):\n{wrong}", flush=True)
    return not wrong


def spend(kind: Kind, first: int, minutes: float) -> int:
    """Run known seeds, and new ones from `first` on until the time is up; return how many runs have failed."""
    known = [int(seed) for (seed,) in corpus(kind.name)] if kind in CHAOTIC else []
    failed = sum(not play(kind, seed) for seed in known)
    end, seed = time.monotonic() + 60 * minutes, first
    while time.monotonic() < end:
        failed += not play(kind, seed)
        seed += 1
    print(f"{kind.name}: seeds {first} to {seed - 1}, {failed or 'none'} failed", flush=True)
    return failed


def fuzz(minutes: float) -> bool:
    """Fuzz the SASL exchange; tell whether nothing was found.

    It prints what it finds, and keeps it beside the inputs that have reached most.
    """
    corpus = REPOSITORY / ".cache" / "fuzz-sasl"
    command = [sys.executable, str(FUZZ), "--minutes", str(minutes), "--corpus", str(corpus)]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode in (0, FUZZ_LACKING)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="minutes for each of the six parts")
    parser.add_argument(
        "--first",
        type=int,
        default=random.SystemRandom().randrange(1 << 40),
        help="first seed; default: drawn at random",
    )
    given = parser.parse_args()
    failed = sum(spend(kind, given.first, given.minutes) for kind in KINDS)
    return 0 if fuzz(given.minutes) and not failed else 1


if __name__ == "__main__":
    if "PYTHONHASHSEED" not in os.environ:  # sets of strings must have one order in every process
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
