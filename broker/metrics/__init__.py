"""Counters and the journal: plain numbers, noted where things happen, that broker/monitoring reads when asked."""
