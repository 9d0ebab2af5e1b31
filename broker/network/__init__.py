"""Sockets, frames and connections: requests come in here, answers go out, in order and within limits."""
