"""A metric: Kafka's MBean, its Prometheus name, and how it is read.

Dashboards and alerts know Kafka's metrics by what the JMX exporter makes of MBeans. There are two families of
rules, and a broker answers in either:

    jmx_exporter   examples/kafka-2_0_0.yml of prometheus/jmx_exporter; Strimzi's and most of Grafana's dashboards:
                   kafka_server_brokertopicmetrics_messagesin_total, …_networkprocessoravgidle_percent
    confluent      confluentinc/jmx-monitoring-stacks: kafka_server_brokertopicmetrics_messagesinpersec, labels in small
                   letters

Durations are milliseconds in Kafka's metrics, seconds in ours (`odradek_…`).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from odradek.world.durations import Durations

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""Quantiles of Kafka's histograms, as the JMX exporter's rules name them."""


class Style(Enum):
    """Rules by which metrics are named: the JMX exporter's, or those of Confluent's `jmx-monitoring-stacks`."""

    JMX_EXPORTER = "jmx_exporter"
    CONFLUENT = "confluent"


class Kind(Enum):
    """Type of a metric in Prometheus."""

    GAUGE = "gauge"
    COUNTER = "counter"
    SUMMARY = "summary"


Labels = tuple[str, ...]
Value = float | tuple[Durations, int]
"""A number, or a distribution with the count that goes with it."""
Samples = Iterable[tuple[Labels, Value]]


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the catalog. `read` is given the broker (see observed.py) and goes over copies of what may change while
    it is paused."""

    names: dict[Style, str]
    kind: Kind
    labels: tuple[str, ...]
    source: str
    """Kafka's MBean and attribute; or what ours is read from."""
    text: str
    read: Callable[[Any], Samples]

    def lines(self, broker: object, style: Style) -> Iterator[str]:
        """Yield the text exposition format, in pieces; nothing at all for a metric without a sample."""
        name = self.names[style]
        # What counts and is not called …_total has no type, as from the JMX exporter: parsers would rename it.
        typed = "untyped" if self.kind is Kind.COUNTER and not name.endswith("_total") else self.kind.value
        head = f"# HELP {name} {self.text}\n# TYPE {name} {typed}\n"
        labels = [label.lower() if style is Style.CONFLUENT else label for label in self.labels]
        for values, value in self.read(broker):
            told = ",".join(f'{label}="{_escaped(one)}"' for label, one in zip(labels, values, strict=True))
            yield head + (
                _summary(name, told, *value)
                if isinstance(value, tuple)
                else f"{name}{_braced(told)} {_number(value)}\n"
            )
            head = ""


def _summary(name: str, labels: str, durations: Durations, count: int) -> str:
    comma = "," if labels else ""
    quantiles = (
        f'{name}{{{labels}{comma}quantile="{quantile}"}} {_number(durations.quantile_s(quantile) * 1000.0)}\n'
        for quantile in QUANTILES
    )
    return "".join(quantiles) + f"{name}_count{_braced(labels)} {count}\n"


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


def _parts(mbean: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Return domain, type, name and further keys of `kafka.server:type=…,name=…,topic=*`."""
    domain, _, properties = mbean.partition(":")
    keys = dict(one.split("=") for one in properties.split(","))
    kind, name = keys.pop("type"), keys.pop("name", "")
    return domain.removeprefix("kafka.").replace(".", "_"), kind, name, tuple(key.replace("-", "_") for key in keys)


def _joined(*parts: str) -> str:
    return "_".join(("kafka", *(part for part in parts if part))).lower().replace("-", "_")


def gauge(mbean: str, text: str, read: Callable[[Any], Samples]) -> Metric:
    """Return a gauge of Kafka's, its attribute Value; what is called …Percent becomes …_percent."""
    domain, kind, name, keys = _parts(mbean)
    plain = _joined(domain, kind, name)
    percent = re.sub(r"(?<!_)percent$", "_percent", plain)
    return Metric({Style.JMX_EXPORTER: percent, Style.CONFLUENT: plain}, Kind.GAUGE, keys, mbean, text, read)


def meter(mbean: str, text: str, read: Callable[[Any], Samples]) -> Metric:
    """Return a meter of Kafka's, its attribute Count: …PerSec becomes …_total."""
    domain, kind, name, keys = _parts(mbean)
    plain = _joined(domain, kind, name)
    total = plain.removesuffix("persec") + "_total"
    return Metric({Style.JMX_EXPORTER: total, Style.CONFLUENT: plain}, Kind.COUNTER, keys, mbean, text, read)


def histogram(mbean: str, text: str, read: Callable[[Any], Samples]) -> Metric:
    """Return a histogram or timer of Kafka's, in milliseconds: quantiles of the last minutes, and a count."""
    domain, kind, name, keys = _parts(mbean)
    plain = _joined(domain, kind, name)
    return Metric(dict.fromkeys(Style, plain), Kind.SUMMARY, keys, mbean, text, read)


def attribute(
    mbean: str, name: str, text: str, read: Callable[[Any], Samples], *, kind: Kind = Kind.GAUGE, confluent: str = ""
) -> Metric:
    """Return an attribute of an MBean of Kafka's own metrics library, whose MBeans have several, and no name."""
    domain, type_, _, keys = _parts(mbean)
    plain = _joined(domain, type_, name)
    styled = {Style.JMX_EXPORTER: plain, Style.CONFLUENT: confluent or plain}
    return Metric(styled, kind, keys, f"{mbean} {name}", text, read)


def own(
    name: str, text: str, read: Callable[[Any], Samples], *labels: str, kind: Kind = Kind.GAUGE, source: str
) -> Metric:
    """Make a metric that Kafka's brokers do not have, or that has the name which an exporter or the Prometheus client
    libraries give it."""
    return Metric(dict.fromkeys(Style, name), kind, labels, source, text, read)


def one(value: Value) -> Samples:
    """Return the only sample of a metric without labels."""
    return (((), value),)
