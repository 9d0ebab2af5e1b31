"""Hosts on this machine: network namespaces on a bridge of their own, between which the network can be broken.

Each host has a namespace with one link to the bridge, which is in a namespace too. Packets are dropped by iptables,
links are made slow by tc (`tbf`): both are in every kernel; `netem` is not. Needs root and Linux.
"""

import ctypes
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

CLONE_NEWNET = 0x40000000
SUBNET = "10.71.0"
SLOW = ("rate", "200kbit", "burst", "16kbit", "latency", "3000ms")
LINK = "eth0"


class NoNamespaces(OSError):  # noqa: N818 - a sentence for a person
    """The kernel has no network namespaces, or not for this user."""


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNamespaces(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


class Hosts:
    """Hosts by name; leaving the block takes them away."""

    def __init__(self, names: Sequence[str]) -> None:
        self._prefix = f"odr{os.getpid()}"
        self.names = list(names)
        self.address = {name: f"{SUBNET}.{number}" for number, name in enumerate(names, 10)}

    def _namespace(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def __enter__(self) -> "Hosts":
        bridge = self._namespace("bridge")
        try:
            run("ip", "netns", "add", bridge)
            run("ip", "-n", bridge, "link", "add", "br0", "type", "bridge")
            run("ip", "-n", bridge, "link", "set", "br0", "up")
            for number, name in enumerate(self.names):
                self._add(name, bridge, f"v{number}")
        except OSError:
            self.__exit__()
            raise
        return self

    def _add(self, name: str, bridge: str, port: str) -> None:
        host = self._namespace(name)
        run("ip", "netns", "add", host)
        run("ip", "-n", bridge, "link", "add", port, "type", "veth", "peer", "name", LINK, "netns", host)
        run("ip", "-n", bridge, "link", "set", port, "master", "br0", "up")
        run("ip", "-n", host, "addr", "add", f"{self.address[name]}/24", "dev", LINK)
        run("ip", "-n", host, "link", "set", LINK, "up")
        run("ip", "-n", host, "link", "set", "lo", "up")

    def __exit__(self, *_: object) -> None:
        for name in (*self.names, "bridge"):
            subprocess.run(["ip", "netns", "del", self._namespace(name)], capture_output=True, check=False)

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` on a host."""
        return ["ip", "netns", "exec", self._namespace(name), *command]

    def enter(self, name: str) -> None:
        """Move this thread, and those that it begins later, to a host."""
        with Path(f"/run/netns/{self._namespace(name)}").open() as namespace:
            library = ctypes.CDLL(None, use_errno=True)
            if library.setns(namespace.fileno(), CLONE_NEWNET):
                raise NoNamespaces(ctypes.get_errno(), "setns")

    # Faults. `heal` ends all of them.

    def cut(self, deaf: str, other: str) -> None:
        """Drop what `deaf` is sent by `other`: one way."""
        run(*self.command(deaf, ["iptables", "-A", "INPUT", "-s", self.address[other], "-j", "DROP"]))

    def part(self, some: Sequence[str], others: Sequence[str]) -> None:
        """Let no packet pass between the two, in either direction."""
        for one in some:
            for other in others:
                self.cut(one, other)
                self.cut(other, one)

    def lose(self, name: str, share: float) -> None:
        """Drop some of what a host is sent, by chance."""
        random = ["-m", "statistic", "--mode", "random", "--probability", f"{share}"]
        run(*self.command(name, ["iptables", "-A", "INPUT", "-i", LINK, *random, "-j", "DROP"]))

    def slow(self, name: str) -> None:
        """Let a host send 200 kbit a second, and the rest wait up to three seconds."""
        run(*self.command(name, ["tc", "qdisc", "replace", "dev", LINK, "root", "tbf", *SLOW]))

    def unplug(self, name: str) -> None:
        """Take a host's link down."""
        run(*self.command(name, ["ip", "link", "set", LINK, "down"]))

    def heal(self) -> None:
        for name in self.names:
            run(*self.command(name, ["iptables", "-F"]))
            subprocess.run(
                self.command(name, ["tc", "qdisc", "del", "dev", LINK, "root"]), capture_output=True, check=False
            )
            run(*self.command(name, ["ip", "link", "set", LINK, "up"]))
