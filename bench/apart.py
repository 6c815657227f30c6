"""Login codes' lane in a worker process of its own, as where there is more than a desk (docs/operations.md, Lanes).

The campaign's providers are a simulator of their own, too: in the stack's one, codes would wait behind its calls.
"""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import orjson
import psutil

from bench.desk import Desk
from bench.harness import WrongResultError, until
from bench.lane import free_port
from ops.dev.environment import provider_environment
from ops.dev.status import Kind
from shared.wire.channel import DEFAULT_CHANNELS, OTP_LANE

_WORKERS: Final = "workers"


@asynccontextmanager
async def workers_apart(desk: Desk) -> AsyncIterator[Sequence[int]]:
    """Two workers instead of the stack's one, which sleeps meanwhile; the pids of all that is new, once it is ready."""
    one = psutil.Process(desk.pids(Kind.SERVICE)[_WORKERS])
    rest = [lane.name for lane in DEFAULT_CHANNELS.lanes if lane is not OTP_LANE]
    environment = one.environ()
    started: list[subprocess.Popen[bytes]] = []
    with _simulator(desk.paths.state / "campaign") as (simulator, providers):
        one.send_signal(signal.SIGSTOP)
        try:
            for lanes, settings in (([OTP_LANE.name], {}), (rest, providers)):
                port = free_port()
                health = {"ULAK_HEALTH_PORT": str(port)}
                started.append(_start(lanes, {**environment, **settings, **health}, desk.paths.logs))
                await until(partial(_ready, port), timeout_sec=60, what=f"a worker of {lanes[0]} being ready")
            yield [simulator, *(process.pid for process in started)]
        finally:
            for process in started:
                process.kill()  # a campaign is under way, and nobody asks what becomes of it
                process.wait(60)
            one.send_signal(signal.SIGCONT)


def _start(lanes: Sequence[str], environment: Mapping[str, str], logs: Path) -> subprocess.Popen[bytes]:
    arguments = [part for lane in lanes for part in ("--lane", lane)]
    with (logs / f"workers-{lanes[0]}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "services.workers", *arguments],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


async def _ready(port: int) -> bool:
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def _simulator(folder: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Providers that send no receipts: their pid, and the settings that lead to them."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ops.simulator", "--state-dir", str(folder), "--receipts", "withheld"],
        stdout=subprocess.PIPE,
    )
    try:
        line = process.stdout.readline() if process.stdout is not None else b""
        if not line:
            raise WrongResultError("the campaign's simulator did not start")
        endpoints = orjson.loads(line)
        token = Path(endpoints["twilioAuthTokenFile"]).read_text(encoding="ascii").strip()
        yield process.pid, provider_environment(endpoints, token)
    finally:
        process.kill()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()
