"""Metrics of quotas: what clients use of them, and how long they have to wait, as long as that is remembered."""

from collections.abc import Callable
from typing import Final

from odradek.broker.monitoring.metric import Metric, Samples, own
from odradek.broker.monitoring.observed import Observed
from odradek.broker.quotas.client_quotas import QuotaType

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
