"""Counters: plain numbers, noted where things happen, that broker/monitoring reads when asked.

counters            traffic of topics
request_metrics     times of requests by API and phase, and errors in the answers
"""
