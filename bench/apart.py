"""Login codes' lane in a worker process of its own, as where there is more than a desk (docs/operations.md)."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import psutil

from bench.desk import Desk
from bench.harness import until
from bench.lane import free_port
from ops.dev.status import Kind
from shared.wire.channel import DEFAULT_CHANNELS, OTP_LANE

_WORKERS: Final = "workers"


@asynccontextmanager
async def workers_apart(desk: Desk) -> AsyncIterator[Sequence[int]]:
    """Two workers instead of the stack's one, which sleeps meanwhile; their pids, once both are ready."""
    one = psutil.Process(desk.pids(Kind.SERVICE)[_WORKERS])
    rest = [lane.name for lane in DEFAULT_CHANNELS.lanes if lane is not OTP_LANE]
    environment = one.environ()
    one.send_signal(signal.SIGSTOP)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for lanes in ([OTP_LANE.name], rest):
            port = free_port()
            started.append(_start(lanes, {**environment, "ULAK_HEALTH_PORT": str(port)}, desk.paths.logs))
            await until(partial(_ready, port), timeout_sec=60, what=f"a worker of {lanes[0]} being ready")
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()  # a campaign is under way, and nobody asks what becomes of it
            process.wait(60)
        one.send_signal(signal.SIGCONT)


def _start(lanes: Sequence[str], environment: dict[str, str], logs: Path) -> subprocess.Popen[bytes]:
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
