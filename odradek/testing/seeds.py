"""Seeds that have failed once, which the tests replay: a file of `tests/seeds/` for each kind of run.

A line is a seed, with what else the run needs behind it, and from # on a remark.
"""

from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "tests" / "seeds"


def corpus(kind: str) -> list[list[str]]:
    """Return the words of each line of the file, without remarks."""
    lines = (DIRECTORY / f"{kind}.txt").read_text().splitlines()
    return [words for line in lines if (words := line.partition("#")[0].split())]


def remember(kind: str, *words: object) -> bool:
    """Add a line unless it is there; whether it was not."""
    told = [str(word) for word in words]
    if told in corpus(kind):
        return False
    with (DIRECTORY / f"{kind}.txt").open("a") as file:
        file.write(" ".join(told) + "\n")
    return True
