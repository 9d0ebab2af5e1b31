"""Monitoring: metrics for Prometheus, and the journal, which a broker shows over HTTP. Reads live objects.

monitoring          begins it, and ends it; nothing without `metrics.port`
exporter            the HTTP answers
observed            the broker as metrics read it; lag: how far its groups are behind
metric              what a metric is
metrics_catalog     all: broker_metrics, log_metrics, quota_metrics, cluster_metrics, coordinator_metrics, partitions
metrics_page        docs/metrics.md, made of the catalog
"""
