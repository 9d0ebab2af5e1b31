"""Monitoring: metrics for Prometheus, and the journal, which a broker shows over HTTP. Reads live objects.

monitoring          begins it, and ends it; nothing without `metrics.port`
exporter            the HTTP answers; readiness: whether the broker may be taken away
observed            the broker as metrics read it; lag: how far its groups are behind
metric              what a metric is; metrics_catalog: all of them
broker_metrics      the metrics themselves, with partition_metrics and cluster_metrics
metrics_page        docs/metrics.md, made of the catalog
"""
