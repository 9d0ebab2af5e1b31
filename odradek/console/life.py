"""Start and stop of a console: its clients, its observer, its page."""

import errno
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import aiohttp

from odradek.client.aio.admin import Admin
from odradek.console.actions import Brokers
from odradek.console.guard import LOOPBACK, new_token
from odradek.console.journals import Journals, over_http, settings_of
from odradek.console.observer import Observer, looker
from odradek.console.reading import Reader
from odradek.console.server import Console
from odradek.console.views import Views
from odradek.world.clock import Clock
from odradek.world.tasks import OnDeath, Tasks

log = logging.getLogger(__name__)

DEFAULT_PORT = 9090
PATIENCE_MS = 5_000
OPEN = ("", "PLAINTEXT")


@dataclass(frozen=True)
class ConsolePlan:
    """Settings of a console."""

    bootstrap: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the console's clients, by Kafka's names: TLS, SASL."""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """Port of the page; 0 takes a free one."""
    allowed_hosts: Iterable[str] = ()
    """Further host names of the console."""
    token: str = field(default_factory=new_token)

    @property
    def private(self) -> bool:
        """Tell whether reading needs the token: if Kafka's APIs are not open to everybody, or the console listens to
        other machines."""
        return str(self.settings.get("security.protocol", "")) not in OPEN or self.host not in LOOPBACK

    def clients(self) -> dict[str, Any]:
        """Return the settings of all clients of the console."""
        return {
            "client.id": "odradek-console",
            "request.timeout.ms": PATIENCE_MS,
            "default.api.timeout.ms": PATIENCE_MS,
            "socket.connection.setup.timeout.ms": PATIENCE_MS,
            **self.settings,
            "bootstrap.servers": self.bootstrap,
        }


class RunningConsole:
    """A console that serves while it is entered."""

    def __init__(self, plan: ConsolePlan, clock: Clock, brokers: Brokers | None = None) -> None:
        self._plan, self._clock = plan, clock
        self._tasks = Tasks(clock, log.critical)
        self._admin = Admin(plan.clients())
        self._session: aiohttp.ClientSession
        self._console: Console
        self._brokers = brokers
        self.url = ""
        """Address for a browser. The token is behind the `#`, a part that browsers do not send."""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def start(self) -> Self:
        """Start to serve; `close` ends that. Raises OSError when the port is in use."""
        clock, admin = self._clock, self._admin
        await admin.start()
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        journals = Journals(settings_of(admin), over_http(self._session))
        processes = self._brokers.processes if self._brokers is not None else list
        observer = Observer(looker(admin, clock), clock, journals, processes)
        reader = Reader(admin, self._plan.clients(), clock)
        self._console = Console(observer, Views(admin, reader, observer, clock), clock, self._brokers)
        plan = self._plan
        try:
            port = await self._console.serve(
                plan.host, plan.port, plan.token, [plan.host, *plan.allowed_hosts], private=plan.private
            )
        except BaseException as error:
            await self.close()
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                raise OSError(
                    f"port {plan.port} on {plan.host}, for the console's page, is in use: choose another (--port; for "
                    "`up` --console-port), or 0 for a free one"
                ) from None
            raise
        host = f"[{plan.host}]" if ":" in plan.host else plan.host
        self.url = f"http://{host}:{port}/#token={plan.token}"
        self._tasks.spawn("observer", observer.run, OnDeath.RESTART)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop serving, and close all clients."""
        self._tasks.close()
        await self._console.close()
        await self._session.close()
        await self._admin.close()
