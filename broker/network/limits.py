"""Limits of one connection that no setting changes; the others are ConnectionSettings."""

RECEIVE_BUFFER_BYTES = 1 << 16
"""Size of the buffer that all connections share, and of a connection's own one at first."""
READ_AHEAD_BYTES = RECEIVE_BUFFER_BYTES
"""Bytes read ahead before reading stops, while a connection's requests may not be handled."""
UNSENT_BYTES_MAX = 1 << 20
"""Unsent bytes of a connection above which none of its requests is handled until its client has read some."""
UNANSWERED_REQUESTS_MAX = 256
"""Most requests of one connection that are under way at once, where later ones may overtake earlier ones."""
LONG_WAIT_MS = 60_000
"""Reading requests that may wait for longer than this are dropped as soon as their connection closes, not when they are
next touched. It is also the longest that a connection is kept after its client has stopped sending."""
AUTHENTICATION_MS_MAX = 30_000
"""Time in which a client must prove who it is; then it is closed, in the TLS handshake, in SASL, or silent."""
UNAUTHENTICATED_MAX = 1000
"""Most connections whose clients are still to prove who they are; when there are more, the oldest is closed."""
UNAUTHENTICATED_BYTES_MAX = 64 * 1024 * 1024
"""Most bytes of incomplete requests of these connections together; when there are more, the one with most is closed."""
BUFFER_REVIEW_MS = 10_000
"""Time between two reviews of the connections' own buffers; those that are far larger than needed are given back."""
