"""Settings of client quotas: over how long they are measured. The quotas themselves stand in ZooKeeper."""

from dataclasses import dataclass

from odradek.broker.settings.definition import setting


@dataclass(frozen=True, kw_only=True)
class QuotaSettings:
    """Windows of client quotas."""

    quota_window_num: int = setting("int 11 >=1 low read-only", "Samples kept for client quotas.")
    quota_window_size_seconds: int = setting("int 1 >=1 low read-only", "Length of one sample of client quotas.")
    controller_quota_window_num: int = setting(
        "int 11 >=1 low read-only", "Samples kept for quotas of controller mutations."
    )
    controller_quota_window_size_seconds: int = setting(
        "int 1 >=1 low read-only", "Length of one sample of quotas of controller mutations."
    )
