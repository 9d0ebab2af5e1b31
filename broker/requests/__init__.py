"""Requests: one file per API, named as Kafka names it and as the message in protocol/messages is.

registry            collects them; dispatch calls them: bytes in, handler, bytes out
authorization       who may ask what, around the handlers; throttled: quotas around them; request_log: the log

What several APIs share: administration, config_resources, coordinator_answers, loggers, quota_entities, token_requests,
zookeeper_offsets (of OffsetCommit and OffsetFetch, version 0). slow_records: of Produce alone.
"""
