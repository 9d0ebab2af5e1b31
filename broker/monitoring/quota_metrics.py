"""Metrics of quotas: what clients use of them, and how long they have to wait, as long as that is remembered; and of
the limits on the copying of replicas, as long as there are any."""

from collections.abc import Callable
from typing import Final

from odradek.broker.monitoring.metric import Metric, Samples, one, own
from odradek.broker.monitoring.observed import Observed
from odradek.broker.quotas.client_quotas import QuotaType
from odradek.broker.replication.throttling import RateLimit, Throttling

RESOURCES: Final = {
    QuotaType.PRODUCE: "Produce",
    QuotaType.FETCH: "Fetch",
    QuotaType.REQUEST: "Request",
    QuotaType.MUTATION: "ControllerMutation",
}
"""Names of the kinds of quotas in Kafka's MBeans."""


def _rates(broker: Observed, *kinds: QuotaType) -> Samples:
    for kind, user, client_id, rate, _ in broker.services.quotas.uses():
        if kind in kinds:
            yield (RESOURCES[kind], user, client_id), rate


def _throttles(broker: Observed) -> Samples:
    for kind, user, client_id, _, throttle_ms in broker.services.quotas.uses():
        yield (RESOURCES[kind], user, client_id), throttle_ms


def _copied(name: str, text: str, limit: Callable[[Throttling], RateLimit]) -> Metric:
    def read(broker: Observed) -> Samples:
        limited = limit(broker.services.replicas.throttling)
        return () if limited.bytes_per_second is None else one(limited.rate)

    source = f"kafka.server:type={name} byte-rate"
    return own(f"kafka_server_{name.lower()}_byte_rate", text, read, source=source)


def _quota(name: str, text: str, read: Callable[[Observed], Samples]) -> Metric:
    source = f"kafka.server:type=*,user=*,client-id=* {name}"
    return own(
        f"kafka_server_quota_{name.replace('-', '_')}", text, read, "resource", "user", "clientId", source=source
    )


QUOTAS: Final = (
    _quota(
        "byte-rate",
        "Bytes a second that a user, a client id or both of them produce or fetch, of those who have a quota.",
        lambda broker: _rates(broker, QuotaType.PRODUCE, QuotaType.FETCH),
    ),
    _quota(
        "request-time",
        "Percent of the event loop's time that they take.",
        lambda broker: _rates(broker, QuotaType.REQUEST),
    ),
    _quota(
        "throttle-time",
        "Milliseconds that they have to wait when they are above their quota, the mean of the last minute.",
        _throttles,
    ),
)
COPYING: Final = (
    _copied(
        "LeaderReplication",
        "Bytes a second that are sent to followers under leader.replication.throttled.rate.",
        lambda throttling: throttling.serving.limit,
    ),
    _copied(
        "FollowerReplication",
        "Bytes a second that are copied from leaders under follower.replication.throttled.rate.",
        lambda throttling: throttling.following.limit,
    ),
    _copied(
        "AlterLogDirsReplication",
        "Bytes a second that move to other log directories under replica.alter.log.dirs.io.max.bytes.per.second.",
        lambda throttling: throttling.moving,
    ),
)
