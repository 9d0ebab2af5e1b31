"""HTTP server of the console, on aiohttp.

GET  /                    the page, and /page/NAME its files
GET  /api/stream          server-sent events: state, happenings, and with ?view=… the data of an open view
GET  /api/records         records of a topic, by offset or by time
GET  /api/field           one key, value or header of a record, up to 64 KiB of it
GET  /api/lags            how far some groups are behind
POST /api/act             {"broker": 1, "action": "kill"}: with the token, if the console controls brokers
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from importlib.resources import files
from typing import Any, Final

from aiohttp import web

from odradek.console.actions import SAID, ActionRefusedError, Brokers
from odradek.console.guard import HEADERS, Guard
from odradek.console.happenings import PAGE, Happening
from odradek.console.observer import Observer
from odradek.console.stream import Stream, Streams
from odradek.console.views import BadQuestionError, Views
from odradek.protocol.errors import KafkaError
from odradek.world.clock import Clock
from odradek.world.tasks import Tasks

log = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 4_096
TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def page_files() -> dict[str, tuple[bytes, str]]:
    """Return the page's files by name, each with its type."""
    found = {}
    for entry in files("odradek.console").joinpath("page").iterdir():
        kind = TYPES.get(entry.name[entry.name.rfind(".") :])
        if kind is not None:
            found[entry.name] = (entry.read_bytes(), kind)
    return found


class Console:
    """Server of one console."""

    def __init__(self, observer: Observer, views: Views, clock: Clock, brokers: Brokers | None = None) -> None:
        self._observer, self._views, self._clock, self._brokers = observer, views, clock, brokers
        self._tasks = Tasks(clock, log.critical)
        self._streams = Streams(observer)
        self._files = page_files()
        self._guard: Guard

    async def serve(self, host: str, port: int, token: str, hosts: Iterable[str] = (), *, private: bool = False) -> int:
        """Listen, until `close`; return the port. Raises OSError."""
        app = web.Application(middlewares=[self._checked], client_max_size=BODY_BYTES_MAX)
        app.router.add_get("/", self._index)
        app.router.add_get("/page/{name}", self._file)
        app.router.add_get("/api/stream", self._stream)
        app.router.add_get("/api/records", self._answered(self._views.records))
        app.router.add_get("/api/field", self._answered(self._views.field))
        app.router.add_get("/api/lags", self._answered(self._views.lags))
        app.router.add_post("/api/act", self._act)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        taken: int = self._runner.addresses[0][1]
        self._guard = Guard(taken, token, tuple(hosts), private)
        return taken

    async def close(self) -> None:
        """Stop listening, and end open streams."""
        self._streams.close()
        await self._runner.cleanup()
        self._tasks.close()

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        public = not request.path.startswith("/api/")
        refusal = self._guard.refusal(request.headers, changes=request.method not in ("GET", "HEAD"), public=public)
        if refusal is not None:
            return _json({"error": refusal}, 403)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            response = _json({"error": error.reason}, error.status)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return self._page("index.html")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return self._page(request.match_info["name"])

    def _page(self, name: str) -> web.Response:
        if name not in self._files:
            raise web.HTTPNotFound
        body, kind = self._files[name]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self._streams.full:
            return _json({"error": "too many pages are open"}, 503)
        view = request.query.get("view", "")
        try:
            asker = self._views.asker(view) if view else None
        except BadQuestionError as error:
            return _json({"error": str(error)}, 400)
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream; charset=utf-8"})

        def abort() -> None:
            if request.transport is not None:
                request.transport.abort()

        after = _number(request.query.get("happening"))
        stream = Stream(response, self._observer, self._clock, self._tasks, asker, after, abort)
        with self._streams.place(stream):
            await response.prepare(request)
            await stream.run()
        return response

    def _answered(self, ask: Callable[[Any], Awaitable[Any]]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return _json(await ask(request.query))
            except BadQuestionError as error:
                return _json({"error": str(error)}, 400)
            except KafkaError as error:
                return _json({"error": str(error)})  # status 200: the cluster refuses, this server has not failed

        return handle

    async def _act(self, request: web.Request) -> web.StreamResponse:
        if self._brokers is None:
            return _json({"error": "this console is read-only: `odradek up --console` can control brokers"}, 403)
        try:
            asked = await request.json()
            broker, action = int(asked["broker"]), str(asked["action"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return _json({"error": 'the body must be like {"broker": 1, "action": "kill"}'}, 400)
        try:
            await self._brokers.act(broker, action)
        except ActionRefusedError as error:
            return _json({"error": str(error)}, 409)
        title = f"broker {broker} {SAID.get(action, action)}"
        self._observer.note(Happening(self._clock.now_ms(), "action", title, "asked for on this page", PAGE, broker))
        return _json({"done": action})


def _json(value: Any, status: int = 200) -> web.Response:
    return web.json_response(value, status=status, headers=HEADERS)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 16 else 0
