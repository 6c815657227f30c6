"""How a service lives: event loop, signals, health port, HTTP surface, exit."""

import asyncio
import inspect
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import uvicorn
import uvloop
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from shared.runtime.error import OperatorError
from shared.runtime.garbage import collect_rarely
from shared.runtime.logs import configure_logging, get_logger
from shared.runtime.settings import HealthSettings, HttpSettings

Check = Callable[[], bool | Awaitable[bool]]


class Stop:
    """Set once by SIGTERM or SIGINT; everything that runs watches it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def request(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()

    async def sleep(self, seconds: float) -> bool:
        """Wait at most that long; True if stop was requested meanwhile."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
        return self.requested


def run(main: Callable[[Stop], Awaitable[None]], *, service: str) -> None:
    """Run a service until it returns or is told to stop; then exit.

    A surprise is logged and ends the process with 1, so that whoever supervises it starts it afresh. A second signal
    while stopping is ignored: SIGKILL is there for the impatient, and what it leaves is defined (semantics.md).
    """
    configure_logging(service)
    collect_rarely()
    log = get_logger(__name__)

    async def live() -> None:
        stop = Stop()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.request)
        log.info("service_started")
        await main(stop)
        log.info("service_stopped")

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(live())
    except SystemExit:
        raise
    except OperatorError as error:
        log.error("service_failed", error=str(error))  # noqa: TRY400  the sentence says it all
        sys.exit(1)
    except BaseException:
        log.exception("service_failed")
        sys.exit(1)


@asynccontextmanager
async def serve_health(settings: HealthSettings, checks: Mapping[str, Check]) -> AsyncIterator[None]:
    """Answer `/healthz` (the process lives), `/readyz` (every check holds; names those that do not) and `/metrics`."""

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        results = {name: await _holds(check) for name, check in checks.items()}
        return JSONResponse({"ready": all(results.values()), "checks": results}, 200 if all(results.values()) else 503)

    async def metrics(_request: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    app = Starlette(
        routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)],
    )
    server = _Server(_config(app, settings.host, settings.port))
    task = asyncio.create_task(server.serve())
    try:
        await server.listening(task)
        yield
    finally:
        server.should_exit = True
        await task


async def serve_http(app: Any, settings: HttpSettings, stop: Stop) -> None:
    """Serve an ASGI app until stop; then go on for `pre_stop_sec` (G2) and let running requests finish."""
    config = _config(app, settings.host, settings.port)
    config.timeout_graceful_shutdown = int(settings.drain_sec) or 1
    server = _Server(config)
    task = asyncio.create_task(server.serve())
    await server.listening(task)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        await asyncio.sleep(settings.pre_stop_sec)
    stopped.cancel()
    server.should_exit = True
    await task


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: a service has one place that hears signals."""

    def capture_signals(self) -> Any:  # a plain (not async) context manager in uvicorn
        return nullcontext()

    async def listening(self, task: asyncio.Task[None]) -> None:
        """Return when the socket is open; raise what kept it from opening."""
        while not self.started:
            if task.done():
                task.result()
                raise OSError(f"cannot listen on {self.config.host}:{self.config.port}")
            await asyncio.sleep(0.005)


def _config(app: Any, host: str, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="none",
        http="httptools",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # what a proxy claims decides nothing here (S5)
        server_header=False,
        timeout_keep_alive=75,  # longer than common load balancers keep theirs, so that they never race our close
    )


async def _holds(check: Check) -> bool:
    try:
        answer = check()
        return bool(await answer) if inspect.isawaitable(answer) else bool(answer)
    except Exception:  # noqa: BLE001  a check that fails in any way is a check that does not hold; it is logged
        get_logger(__name__).exception("readiness_check_failed")
        return False
