"""Ports of this machine."""

import itertools
import os
import socket


class PortInUse(Exception):  # noqa: N818 (a sentence for a person)
    """A process listens on the port already."""

    def __init__(self, what: str, host: str, port: int) -> None:
        super().__init__(f"port {port} on {host}, wanted for {what}, is in use")


def check_port_free(host: str, port: int, what: str) -> None:
    """Check that a port can be listened on. Raises PortInUse."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortInUse(what, host, port) from error


GOLDEN_RATIO = 0.6180339887498949
FIRST_PORT, LAST_PORT = 15_000, 32_000
"""Below the ports that the system gives to outgoing connections: nobody takes one of these by accident between the
moment it is found free and the moment somebody listens on it."""


def _begin_elsewhere() -> None:
    """Have the search go on at a place of this process's own, also in one that was forked.

    Another process begins far away, however near its number, or it would take the port of a broker that is down and
    comes back; and what was given out is not given again soon.
    """
    global _places
    places = LAST_PORT - FIRST_PORT
    _places = itertools.count(int(os.getpid() * GOLDEN_RATIO * places) % places)


_places: "itertools.count[int]"
_begin_elsewhere()
os.register_at_fork(after_in_child=_begin_elsewhere)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses now, all different. For tests: nothing keeps them free. Raises PortInUse."""
    return [free_port_range(1) for _ in range(count)]


def free_port_range(count: int) -> int:
    """Find `count` adjacent ports that nobody uses now; return the first. Raises PortInUse."""
    adjacent: list[int] = []
    for place in itertools.islice(_places, LAST_PORT - FIRST_PORT):
        port = FIRST_PORT + place % (LAST_PORT - FIRST_PORT)
        if adjacent and adjacent[-1] != port - 1:
            adjacent.clear()
        try:
            check_port_free("127.0.0.1", port, "a test")
        except PortInUse:
            adjacent.clear()
            continue
        adjacent.append(port)
        if len(adjacent) == count:
            return adjacent[0]
    raise PortInUse("a test", "127.0.0.1", FIRST_PORT)
