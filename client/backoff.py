"""How long to wait between attempts. Pure."""

import random


def backoff_ms(first_ms: float, most_ms: float, failures: int, random_source: random.Random) -> float:
    """After `failures` failed attempts: doubled each time up to `most_ms`, then 20 % more or less (KIP-580)."""
    if failures <= 0:
        return 0.0
    planned = min(most_ms, first_ms * (1 << min(failures - 1, 30)))
    return planned * random_source.uniform(0.8, 1.2)
