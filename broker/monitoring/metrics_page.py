"""Makes docs/metrics.md of the catalog: `python -m odradek.broker.monitoring.metrics_page > docs/metrics.md`."""

from odradek.broker.monitoring.metric import Style
from odradek.broker.monitoring.metrics_catalog import THEMES

HEAD = """# Metrics

For those who watch brokers. A broker with `metrics.port` set tells Prometheus about itself at
`http://HOST:PORT/metrics`, by the names that the JMX exporter gives Kafka's MBeans, so that dashboards and alerts made
for Kafka work. `?names=confluent` follows the rules of Confluent's `jmx-monitoring-stacks` (…`persec` in place of
…`_total`, labels in small letters) instead of those of `prometheus/jmx_exporter`. `metrics.host` is the address to
listen on: this machine alone if it is not set, because there is no authentication.

Counting is adding integers; everything else is read when somebody asks, in slices of time. Times of requests are
measured of a sample (the requests of one wake-up of the loop every 2 ms), counts of requests are exact. Quantiles are
of the last five minutes. What Kafka has and this broker lacks is left out: no metric is a constant to please a
dashboard. Names that begin with `jvm_` are Python's nearest.

| | |
|---|---|
| counter | ends in `_total`; take its `rate()` |
| summary | quantiles 0.5 to 0.999 in milliseconds, and `_count` |

This page is made by `python -m odradek.broker.monitoring.metrics_page`.
"""


def render() -> str:
    """Return the page."""
    lines = [HEAD]
    for theme, metrics in THEMES.items():
        lines += [f"## {theme}\n", "| name | kind | labels | what | source |", "|---|---|---|---|---|"]
        for metric in metrics:
            name, labels = metric.names[Style.JMX_EXPORTER], ", ".join(metric.labels)
            source = metric.source.replace("|", "\\|")
            lines.append(f"| `{name}` | {metric.kind.value} | {labels} | {metric.text} | `{source}` |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(render(), end="")
