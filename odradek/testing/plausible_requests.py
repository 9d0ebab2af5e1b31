"""Requests that get past the first check: random, but of names and numbers that mean something to the broker asked.

Field names say what a value is for: a topic's name is mostly one that exists, an index mostly a partition that exists.
What a broker has answered with (member ids, topic ids, epochs) is learnt from `learn` and used again, so that a run
gets as far into each handler as a real client, and then does the next thing wrong.
"""

import random
from collections import defaultdict
from typing import Any

from odradek.protocol.fields import RECORDS, STRING, UUID, Array, Field, Fixed, Message, Sized, Struct, WireType
from odradek.protocol.message_set import encode_message
from odradek.protocol.records import encode_batch

TOPIC, GROUP = "t", "g"
LEARNT_MAX = 20
"""Values of one field that are remembered."""
TEXTS = ["", TOPIC, TOPIC, "missing", "__consumer_offsets", "a b", "..", "x" * 300, "0", "1", "consumer", "range", "-1"]
TEXTS_BY_NAME = {
    "name": [TOPIC] * 4 + ["compacted"],
    "topic": [TOPIC] * 4 + ["compacted"],
    "topic_name": [TOPIC] * 4 + ["compacted"],
    "topics": [TOPIC] * 4 + ["compacted"],
    "group_id": [GROUP] * 6,
    "groups": [GROUP] * 6,
    "groups_names": [GROUP] * 6,
    "key": [GROUP] * 4,
    "protocol_type": ["consumer"] * 6,
    "member_id": [""] * 4,
    "group_instance_id": ["i"] * 4,
    "resource_name": [TOPIC, TOPIC, "", "0"],
    "client_software_name": ["client"] * 4,
    "client_software_version": ["1.0"] * 4,
    "value": ["1000"] * 4 + ["compact", "true"],
    "transactional_id": ["tx"],
}
SETTINGS = ["retention.ms", "cleanup.policy", "max.message.bytes", "min.insync.replicas", "segment.bytes", "log.x"]
NUMBERS = [-1, 0, 0, 0, 1, 2]
NUMBERS_BY_NAME = {
    "resource_type": [2, 2, 4, 8, 16],
    "config_operation": [0, 1, 2, 3],
    "num_partitions": [1, 2, -1, 0],
    "replication_factor": [1, -1, 2],
    "count": [2, 3, 1, 0],
    "session_timeout_ms": [10_000] * 4,
    "rebalance_timeout_ms": [1000] * 4,
    "timeout_ms": [100] * 4,
    "max_wait_ms": [100] * 4,
    "max_bytes": [1 << 20] * 4,
    "partition_max_bytes": [1 << 20] * 4,
    "replica_id": [-1] * 4,
    "acks": [-1, 0, 1],
    "key_type": [0] * 4 + [1],
}
WIDE = {"b": 8, "h": 16, "H": 16, "i": 32, "I": 32, "q": 64}


class PlausibleRequests:
    """`oddity`: how often, from 0 to 1, a value is taken from the extremes instead of from what makes sense."""

    def __init__(self, seed: int, oddity: float = 0.1) -> None:
        self.random = random.Random(seed)
        self.oddity = oddity
        self._learnt: dict[str, list[Any]] = defaultdict(list)

    def learn(self, answer: Struct) -> None:
        """Remember the values of an answer by the names of their fields."""
        for line in answer.FIELDS:
            value = getattr(answer, line.name)
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Struct):
                    self.learn(one)
                elif one is not None and not isinstance(one, bool) and not hasattr(one, "read"):
                    known = self._learnt[line.name]
                    known.append(one)
                    del known[:-LEARNT_MAX]

    def message(self, message: type[Message], version: int) -> Any:
        """Make a request that the encoder takes."""
        return self._struct(message, version)

    def _struct(self, struct: type[Struct], version: int) -> Any:
        values = {}
        for line in struct.FIELDS:
            if version not in line.versions or (line.is_tagged() and self.random.random() < 0.5):
                continue
            null = version in line.nullable and self.random.random() < 0.15
            values[line.name] = None if null else self._value(line.wire, line, version)
        return struct(**values)

    def _value(self, wire: WireType, line: Field, version: int) -> Any:
        if isinstance(wire, Array):
            count = self.random.choice([0, 1, 1, 1, 1, 2, 3])
            return [self._value(wire.element, line, version) for _ in range(count)]
        if isinstance(wire, type):
            return self._struct(wire, version)
        odd = self.random.random() < self.oddity
        learnt = self._learnt.get(line.name)
        if learnt and not odd and self.random.random() < 0.5:
            chosen = self.random.choice(learnt)
            if self._fits(wire, chosen):
                return chosen
        return self._sized(wire, line, odd) if isinstance(wire, Sized) else self._fixed(wire, line, odd)

    @staticmethod
    def _fits(wire: Fixed | Sized, value: Any) -> bool:
        if isinstance(wire, Sized):
            return isinstance(value, str) if wire is STRING else isinstance(value, bytes) and wire is not RECORDS
        if wire is UUID:
            return isinstance(value, bytes) and len(value) == 16
        if wire.code not in WIDE or not isinstance(value, int):
            return False
        low, high = _bounds(wire.code)
        return low <= value <= high

    def _sized(self, wire: Sized, line: Field, odd: bool) -> Any:
        if wire is STRING:
            if not odd and line.name in ("name", "config_keys", "config_names") and self.random.random() < 0.2:
                return self.random.choice(SETTINGS)
            return self.random.choice(TEXTS if odd else TEXTS_BY_NAME.get(line.name, TEXTS))
        return self.records() if wire is RECORDS else self.random.randbytes(self.random.choice([0, 1, 30]))

    def _fixed(self, wire: Fixed, line: Field, odd: bool) -> Any:
        if wire.code == "?":
            return self.random.random() < 0.5
        if wire is UUID:
            return self.random.choice([bytes(16), self.random.randbytes(16)])
        if wire.code not in WIDE:
            return self.random.choice([0.0, 1.0, float("nan")])
        low, high = _bounds(wire.code)
        if odd:
            return self.random.choice([low, high, low + 1, high - 1, self.random.randint(low, high)])
        return max(low, self.random.choice(NUMBERS_BY_NAME.get(line.name, NUMBERS)))

    def records(self) -> bytes:
        """Make a batch, a message set, or nonsense; now and then with a bit flipped."""
        count = self.random.choice([1, 1, 3])
        values = [self.random.choice([b"value", b"", None]) for _ in range(count)]
        keys = [self.random.choice([b"key", None]) for _ in range(count)]
        times = [1_700_000_000_000] * count
        codec = self.random.choice([0, 0, 1, 2, 3, 4])
        kind = self.random.random()
        if kind < 0.1:
            data = bytearray(self.random.randbytes(self.random.choice([0, 5, 61, 100])))
        elif kind < 0.3:
            data = bytearray().join(encode_message(1, 0, times[0], keys[i], values[i]) for i in range(count))
        else:
            producer = self.random.choice([-1, -1, 0, 1000])
            sequence = self.random.choice([0, 1, -1]) if producer >= 0 else -1
            data = encode_batch(0, times, keys, values, codec=codec, producer_id=producer,
                                producer_epoch=min(0, producer), base_sequence=sequence)  # fmt: skip
        if data and self.random.random() < 0.3:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        return bytes(data)


def _bounds(code: str) -> tuple[int, int]:
    bits = WIDE[code]
    return (0, 2**bits - 1) if code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
