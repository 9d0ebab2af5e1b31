"""Limits of one connection that no setting changes; the others are ConnectionSettings."""

RECEIVE_BUFFER_BYTES = 1 << 16
"""Size of the buffer that all connections share, and of a connection's own one at first."""
READ_AHEAD_BYTES = RECEIVE_BUFFER_BYTES
"""Bytes read ahead before reading stops, while a connection's requests may not be handled."""
UNSENT_BYTES_MAX = 1 << 20
"""Unsent bytes of a connection above which none of its requests is handled until it has read some."""
UNANSWERED_REQUESTS_MAX = 256
"""Requests of one connection that may be under way at once, where the one may overtake the other."""
LONG_WAIT_MS = 60_000
"""Requests that may wait for longer than this are forgotten with their connection, not only when they are touched."""
AUTHENTICATION_MS_MAX = 30_000
"""Time for a client to prove who it is; then it is closed, wherever it stands: TLS handshake, SASL, silence."""
UNAUTHENTICATED_MAX = 1000
"""Connections that are still to prove who they are; of more, the one that has had the longest time is closed."""
UNAUTHENTICATED_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of requests that are not whole yet, of all those together; of more, whoever has sent the most is closed."""
BUFFER_REVIEW_MS = 10_000
"""Time between two looks for buffers larger than what their connections have used since; these are given back."""
