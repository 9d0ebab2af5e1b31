"""Monitoring: metrics for Prometheus, and the journal, which a broker shows over HTTP. Reads live objects."""
