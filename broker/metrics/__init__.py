"""Counters and the journal: plain numbers, noted where things happen, that broker/monitoring reads when asked.

counters            traffic of topics, elections, events of the controller
request_metrics     times of requests by API and phase, and errors in the answers
journal             the last things that broker and controller did, and why; sentences: the same in words
"""
