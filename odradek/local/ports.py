"""Ports of this machine."""

import os
import socket


class PortInUse(Exception):  # noqa: N818 (a sentence for a person)
    """Somebody listens there already."""

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


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nobody uses now, all different. For tests: nothing keeps them free."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((host, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def free_port_range(count: int, host: str = "127.0.0.1") -> int:
    """Find `count` adjacent ports that nobody uses now, below those that outgoing connections get; return the first."""
    first, last = 15_000, 32_000
    base = first + os.getpid() * 16 % (last - first)
    for step in range(0, last - first, count):
        start = first + (base - first + step) % (last - first - count)
        try:
            for port in range(start, start + count):
                check_port_free(host, port, "a test")
        except PortInUse:
            continue
        return start
    raise PortInUse("a test", host, base)
