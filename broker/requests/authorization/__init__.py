"""What each API asks of the authorizer before its handler runs, and what it answers when that is denied.

`table.py` is the whole list. Without an authorizer nothing of this package runs.
"""
