"""`odradek console`: a web page about a cluster, until Ctrl-C."""

import asyncio
import signal
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.options import DEFAULT_BOOTSTRAP_SERVER, check_addresses, command_config

if TYPE_CHECKING:
    from odradek.console.life import ConsolePlan

PORT_MAX = 65535


def console(
    bootstrap: Annotated[
        str,
        typer.Option(
            "--bootstrap",
            "--bootstrap-server",
            callback=check_addresses,
            help="host:port of one or more brokers, separated by commas",
        ),
    ] = DEFAULT_BOOTSTRAP_SERVER,
    host: Annotated[str, typer.Option(help="address to listen on; browsers elsewhere need the token")] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=PORT_MAX, help="port of the page; 0 takes a free one")] = 9090,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="another host name under which browsers reach the page")
    ] = None,
) -> None:
    """Serve one live web page about a cluster. It is read-only; `up --console` can also control the brokers."""
    check_installed()
    from odradek.console.life import ConsolePlan

    plan = ConsolePlan(bootstrap, dict(command_config), host, port, tuple(allow_host or ()))
    asyncio.run(_serve(plan))


def check_installed() -> None:
    """Raise OSError, which says what to do, if the extra `console` is not installed."""
    if find_spec("aiohttp") is None:
        raise OSError("the console needs aiohttp: pip install 'odradek[console]'")


async def _serve(plan: "ConsolePlan") -> None:
    from odradek.console.life import RunningConsole
    from odradek.world.clock import LoopClock

    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    async with RunningConsole(plan, LoopClock(loop)) as running:
        print(f"console {running.url}", flush=True)
        await over.wait()
