"""Memory that another process of this machine has taken, as Linux tells it."""

from pathlib import Path

RESET_PEAK = "5"
"""Written to clear_refs: the peak begins anew with what is resident now (proc(5))."""


def resident_bytes(pid: int, name: str = "VmRSS") -> int:
    """VmRSS, or VmHWM: the most there has been."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name))


class PeakMemory:
    """The growth of a process's peak since this was made."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        Path(f"/proc/{pid}/clear_refs").write_text(RESET_PEAK)
        self._before_bytes = resident_bytes(pid)

    @property
    def growth_bytes(self) -> int:
        return resident_bytes(self._pid, "VmHWM") - self._before_bytes
