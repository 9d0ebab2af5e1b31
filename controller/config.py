"""The broker's settings that the controller obeys, under Kafka's names with underscores."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Replaced as a whole when a setting changes (`Controller.configure`)."""

    inter_broker_listener_name: str = "PLAINTEXT"
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    """For topics that do not set it themselves."""
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    controller_socket_timeout_ms: int = 30_000
