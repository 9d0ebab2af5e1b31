"""The result topic as somebody else's consumer sees it."""

import json
from typing import Any

from odradek.testing import Cluster
from odradek.testing.load import read_to_the_end


def all_records(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    """Return the values of partition 0, older totals of a key too."""
    return [json.loads(value) for value in read_to_the_end(cluster.bootstrap, topic, 1)]
