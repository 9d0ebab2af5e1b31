"""Limits of one connection that no setting changes; the others are ConnectionSettings."""

RECEIVE_BUFFER_BYTES = 1 << 16
"""Size of the buffer that all connections share, and of a connection's own one at first."""
READ_AHEAD_BYTES = RECEIVE_BUFFER_BYTES
"""While a connection's requests may not be handled, so much is read ahead before reading stops."""
UNSENT_BYTES_MAX = 1 << 20
"""A connection with more unsent answers than this has none of its requests handled until it has read some."""
UNANSWERED_REQUESTS_MAX = 256
"""Requests of one connection that may be under way at once, where the one may overtake the other."""
BUFFER_REVIEW_MS = 10_000
"""How often buffers that are larger than what their connections used since the last time are given back."""
