"""Logs of a broker on a simulated disk with two log directories, started again and again."""

import random
from dataclasses import replace

from odradek.broker.log.directories.directory_files import DirectoryOwner
from odradek.broker.log.log import Log
from odradek.broker.log.log_manager import LogManager
from odradek.broker.settings.log_settings import LogManagerSettings
from odradek.broker.settings.topic_settings import LogConfig
from odradek.protocol.topic_names import PartitionKey
from odradek.testing.background_work import DeferredBackground, InlineChildren
from odradek.testing.crashes.history import History
from odradek.testing.simulated_files import SimulatedFiles
from odradek.testing.virtual_clock import ManualClock

DIRECTORIES = ("/a", "/b")
US = DirectoryOwner(1, "cluster")
TOPIC_IDS = {"events": bytes(range(16)), "table": bytes(range(1, 17)), "short": bytes(range(2, 18))}
POLICIES = {
    "events": frozenset({"delete"}),
    "table": frozenset({"compact"}),
    "short": frozenset({"compact", "delete"}),
}
LINES_KEPT = 5000


class Violation(AssertionError):  # noqa: N818
    """Failure of a log to keep a promise; the message says what and where."""


class Machine:
    """`logs` is None while it is down. All choices come from `random`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.files = SimulatedFiles(self.random.getrandbits(32), self.clock.now_ms)
        self.background = DeferredBackground(self.random)
        self.logs: LogManager | None = None
        self.failed: list[str] = []
        """Log directories that went offline since the start."""
        self.histories: dict[PartitionKey, History] = {}
        self.last_logs: dict[PartitionKey, Log] = {}
        """Logs as they were known last; a log of a directory that failed is not among the manager's."""
        self.transcript: list[str] = []
        self.configs = {topic: self._config(topic) for topic in POLICIES}
        self.slots = self.random.choice((8, 20, 1000))

    def _config(self, topic: str) -> LogConfig:
        choice = self.random.choice
        return LogConfig(
            segment_bytes=choice((700, 1000, 3000)),
            segment_index_bytes=choice((40, 10_000)),
            index_interval_bytes=choice((0, 100, 500)),
            retention_bytes=choice((-1, 1500, 4000)),
            retention_ms=choice((-1, -1, 300)),
            flush_messages=choice((1, 7, 2**62, 2**62)),
            file_delete_delay_ms=20,
            cleanup_policy=POLICIES[topic],
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=choice((0, 50)),
        )

    def note(self, text: str) -> None:
        """A line of the transcript."""
        assert len(self.transcript) < LINES_KEPT, "a run that does not end"
        self.transcript.append(f"{self.files.changes:4d} {text}")

    def start(self) -> LogManager:
        """Open all logs. Raises MachineStopped, and Violation when a directory does not come online."""
        self.background = DeferredBackground(self.random)
        self.clock = ManualClock(self.clock.now_ms())
        self.files.now_ms = self.clock.now_ms
        self.failed = []
        ready: list[bool] = []
        self.logs = LogManager(
            self.files,
            self.clock,
            self.background,
            self.random,
            DIRECTORIES,
            lambda topic: self.configs[topic],
            settings=LogManagerSettings(
                log_initial_task_delay_ms=30,
                log_retention_check_interval_ms=60,
                log_flush_scheduler_interval_ms=70,
                log_flush_offset_checkpoint_interval_ms=40,
                log_flush_start_offset_checkpoint_interval_ms=50,
                log_cleaner_backoff_ms=25,
                log_cleaner_dedupe_buffer_size=self.slots * 24,
            ),
            children=InlineChildren(self.files, self.clock),
            directory_failed=lambda path, cause, lost: self.failed.append(f"{path}: {cause!r}"),
        )
        self.logs.protect_from(lambda log: self.histories[log.topic, log.partition].high_watermark)
        self.logs.open(US, lambda: ready.append(True))
        for _ in range(1000):
            self.background.drain()
            if ready:
                break
            self.clock.advance(1)
        if not ready:
            raise Violation("the log directories never became ready")
        self.last_logs = {}
        self.see_logs()
        return self.logs

    def log(self, key: PartitionKey) -> Log | None:
        """Return the log of a partition; None when the broker has none."""
        return None if self.logs is None else self.logs.get(*key)

    def see_logs(self) -> None:
        """Remember which there are."""
        if self.logs is not None:
            self.last_logs.update({(log.topic, log.partition): log for log in self.logs.all_logs()})

    def stop(self, power_fails: bool) -> None:
        """Stop at once, whatever is under way: the machine when power fails, else the process alone."""
        if power_fails:
            self.files.crash()
        else:
            self.files.kill()
        self.logs = None

    def configure(self, topic: str, **changes: int) -> None:
        """Give a topic other settings from now on."""
        self.configs[topic] = replace(self.configs[topic], **changes)  # type: ignore[arg-type]
        if self.logs is not None:
            self.logs.configure(topic)
