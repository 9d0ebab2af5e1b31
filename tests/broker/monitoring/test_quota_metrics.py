"""Metrics of quotas: who uses how much, and who has to wait for how long."""

from types import SimpleNamespace

from odradek.broker.monitoring.metric import Style
from odradek.broker.monitoring.quota_metrics import COPYING, QUOTAS
from odradek.broker.quotas.client_quotas import ClientQuotas, QuotaType
from odradek.broker.quotas.rates import RateWindows
from odradek.broker.replication.throttling import Throttling
from odradek.testing.virtual_clock import ManualClock

WINDOWS = RateWindows(11, 1000.0)


def told(quotas: ClientQuotas, style: Style = Style.JMX_EXPORTER) -> dict[str, float]:
    broker = SimpleNamespace(services=SimpleNamespace(quotas=quotas))
    text = "".join(line for metric in QUOTAS for line in metric.lines(broker, style))
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name.removeprefix("kafka_server_quota_"): round(float(value), 3) for name, _, value in lines}


def test_what_is_used_and_how_long_one_waits() -> None:
    clock = ManualClock()
    quotas = ClientQuotas(clock, WINDOWS, WINDOWS)
    quotas.set_entity("users/ann%40x", {"producer_byte_rate": "100", "request_percentage": "1"})
    quotas.set_entity("users/bob/clients/<default>", {"consumer_byte_rate": "1000"})
    quotas.set_entity("clients/<default>", {"controller_mutation_rate": "1"})
    assert quotas.use(QuotaType.PRODUCE, "ann@x", "c", 1_000) == 0
    assert quotas.use(QuotaType.PRODUCE, "ann@x", "d", 500) == 5_000
    assert quotas.use(QuotaType.PRODUCE, "ann@x", "c", 100) == 6_000
    assert quotas.use(QuotaType.REQUEST, "ann@x", "c", 5) == 0
    assert quotas.use(QuotaType.REQUEST, "ann@x", "c", 95) == 1_000, "at most one window"
    for kind, client_id, wait in ((QuotaType.PRODUCE, "d", 5_000), (QuotaType.PRODUCE, "c", 6_000)):
        quotas.note_wait(kind, "ann@x", client_id, wait)
    quotas.note_wait(QuotaType.REQUEST, "ann@x", "c", 1_000)
    quotas.note_wait(QuotaType.PRODUCE, "nobody", "c", 1_000)
    assert quotas.use(QuotaType.FETCH, "bob", "a b", 4_000) == 0
    assert quotas.use(QuotaType.FETCH, "nobody", "c", 4_000) == 0
    for strict, wait in ((False, 9_000), (True, 9_000)):
        mutations = quotas.mutations("carol", "admin", strict=strict)
        assert mutations is not None and mutations.take(20) is not strict and mutations.throttle_ms == wait
    assert told(quotas) == {
        'byte_rate{resource="Produce",user="ann%40x",clientId=""}': 160,
        'byte_rate{resource="Fetch",user="bob",clientId="a b"}': 400,
        'request_time{resource="Request",user="ann%40x",clientId=""}': 10,
        'throttle_time{resource="Produce",user="ann%40x",clientId=""}': 5500,
        'throttle_time{resource="Request",user="ann%40x",clientId=""}': 1000,
        'throttle_time{resource="Fetch",user="bob",clientId="a b"}': 0,
        'throttle_time{resource="ControllerMutation",user="",clientId="admin"}': 9000,
    }
    assert told(quotas, Style.CONFLUENT)['byte_rate{resource="Fetch",user="bob",clientid="a b"}'] == 400
    clock.advance(100_000)
    assert set(told(quotas).values()) == {0}


def test_without_quotas_nothing_is_told() -> None:
    quotas = ClientQuotas(ManualClock(), WINDOWS, WINDOWS)
    assert quotas.use(QuotaType.PRODUCE, "u", "c", 1_000) == 0 and told(quotas) == {}


def test_how_fast_replicas_are_copied_is_told_while_there_is_a_limit() -> None:
    clock = ManualClock()
    throttling = Throttling(clock)
    broker = SimpleNamespace(services=SimpleNamespace(replicas=SimpleNamespace(throttling=throttling)))

    def told() -> dict[str, float]:
        lines = "".join(line for metric in COPYING for line in metric.lines(broker, Style.JMX_EXPORTER)).splitlines()
        pairs = (line.split(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    assert told() == {}
    throttling.serving.limit.bytes_per_second = throttling.following.limit.bytes_per_second = 10
    throttling.following.limit.count(600)
    throttling.moving.bytes_per_second = 1_000
    throttling.moving.count(30)
    clock.advance(3_000)
    rates = {"kafka_server_leaderreplication_byte_rate": 0, "kafka_server_followerreplication_byte_rate": 200}
    assert told() == rates | {"kafka_server_alterlogdirsreplication_byte_rate": 10}
    clock.advance(20_000)
    throttling.moving.bytes_per_second = None
    assert told() == dict.fromkeys(rates, 0)
