"""kcat, the command line program. Debian packages it with librdkafka 2.0, which is much older than that of Python."""

import json
import re
import subprocess
import threading
from collections.abc import Sequence

from odradek.testing.foreign.interface import LINGER_MS, Client, Member, Record
from odradek.testing.patience import PATIENCE_SECONDS

KEY_ENDS = "\x01"
_PARTITION = re.compile(r"\[(\d+)\]")


class KcatClient(Client):
    """Records are text; its null key or value is the empty one (-Z). It stamps them with the time of sending."""

    name = "kcat"
    sets_timestamps = False
    headers_per_record = False

    def __init__(self, bootstrap: str) -> None:
        self._command = ["kcat", "-b", bootstrap]

    def produce(self, topic: str, codec: str, records: Sequence[Record], *, idempotent: bool = False) -> None:
        headers = [f"{key}={value.decode()}" for key, value in records[0].headers if value is not None]
        command = [*self._command, "-P", "-t", topic, "-p", "0", "-z", codec, "-Z", "-K", KEY_ENDS]
        command += [part for header in headers for part in ("-H", header)]
        settings = [f"enable.idempotence={str(idempotent).lower()}", "acks=all", f"linger.ms={LINGER_MS}"]
        command += [part for setting in settings for part in ("-X", setting)]
        lines = [(record.key or b"") + KEY_ENDS.encode() + (record.value or b"") for record in records]
        self._run(command, b"\n".join(lines))

    def consume(self, topic: str, count: int) -> list[Record]:
        command = [*self._command, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count), "-J", "-u", "-q"]
        return [_record(line) for line in self._run(command, b"").splitlines()]

    def _run(self, command: list[str], given: bytes) -> bytes:
        done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
        assert done.returncode == 0 and b"ERROR" not in done.stderr, done.stderr.decode()
        return done.stdout

    def join(self, group: str, topic: str, strategy: str | None = None) -> Member:
        assert strategy is None, f"{self.name} is not asked for {strategy}"
        settings = ["-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=300"]
        command = [*self._command, "-G", group, *settings, "-f", "%p %o\\n", "-u", topic]
        return KcatMember(command)


def _record(line: bytes) -> Record:
    said = json.loads(line)
    flat: list[str] = said.get("headers", [])
    headers = tuple((key, value.encode()) for key, value in zip(flat[::2], flat[1::2], strict=True))
    key, value = (None if said[name] is None else said[name].encode() for name in ("key", "payload"))
    return Record(key, value, headers, said["ts"])


class KcatMember(Member):
    """Member of a group that is a kcat process; it tells its assignments on stderr."""

    def __init__(self, command: list[str]) -> None:
        self._held: set[int] = set()
        self._received: list[tuple[int, int]] = []
        self._said: list[str] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._read_records, self._read_events)]
        for thread in self._threads:
            thread.start()

    def _read_records(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            partition, offset = line.split()
            self._received.append((int(partition), int(offset)))

    def _read_events(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if "assigned:" in line:
                self._held = {int(number) for number in _PARTITION.findall(line)}
            elif "revoked:" in line:
                self._held = set()

    def assignment(self) -> set[int]:
        assert self._process.poll() is None, "".join(self._said)
        return self._held

    def received(self) -> list[tuple[int, int]]:
        return list(self._received)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
