"""Authorization of requests: what each API asks of the authorizer, and what it answers when that is denied.

`table.py` is the whole list. Without an authorizer nothing of this package runs.
"""
