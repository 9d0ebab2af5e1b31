"""`odradek produce` that is interrupted: what it has read is sent, or its exit code says that it is not."""

import io
import sys

import pytest

from odradek.cli import main as command_line


class Producer:
    """Stand-in whose every second send is interrupted."""

    def __init__(self, *arguments: object, **options: object) -> None:
        self.sent: list[bytes] = []

    def __enter__(self) -> "Producer":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def send(self, topic: str, value: bytes, *rest: object, **options: object) -> None:
        if self.sent:
            raise KeyboardInterrupt
        self.sent.append(value)

    def flush(self) -> None:
        print(f"flushed {self.sent}")


class Interrupted(io.BytesIO):
    """Standard input that ends with Ctrl-C."""

    def __next__(self) -> bytes:
        line = self.readline()
        if not line:
            raise KeyboardInterrupt
        return line


@pytest.mark.parametrize(("lines", "code"), [(b"a\n", 0), (b"a\nb\n", 130)])
def test_a_line_in_hand_that_was_not_sent_is_no_success(
    lines: bytes, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever waited for a broker that does not answer was told that all was well."""
    monkeypatch.setattr("odradek.client.producer.client.KafkaProducer", Producer)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Interrupted(lines)))
    assert command_line.run(["produce", "t"]) == code
    assert capsys.readouterr().out == "flushed [b'a']\n"
