"""Requests: one file per API, named as Kafka names it; registry.py collects them, dispatch.py calls them."""
