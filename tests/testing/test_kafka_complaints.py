"""What of the log of Kafka's own broker counts as a complaint."""

from odradek.testing.foreign.kafka_jars import KafkaBroker


class Said(KafkaBroker):
    """A broker that has said these lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines

    def said(self) -> str:
        return "\n".join(self.lines)


def test_a_snapshot_that_is_deleted_before_its_flush_is_no_complaint_and_other_missing_files_are() -> None:
    expected = (
        "[12:00] WARN Failed to flush file /d/1.snapshot (org.apache.kafka.common.utils.Utils)",
        "java.nio.file.NoSuchFileException: /d/1.snapshot",
    )
    faults = [
        "java.nio.file.NoSuchFileException: /d/2.snapshot",
        "[12:00] ERROR Error while reading java.nio.file.NoSuchFileException: /d/1.snapshot",
        "[12:00] WARN Failed to flush file /d/2.log (org.apache.kafka.common.utils.Utils)",
    ]
    assert Said(*expected, *faults).complaints() == faults
