"""Durable accepts a second: POST one notification over 64 kept connections, one service process."""

import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError
from bench.http_load import post, run_load
from bench.ingest_stack import Stack, body, free_port, ingest_stack, listening, process

CONNECTIONS: Final = 64
REQUESTS: Final = 15_000
PATH: Final = "/internal/v1/notifications"

_runs = itertools.count(1)


def _accepted(status: bytes, answer: bytes) -> None:
    if b" 202 " not in status:
        raise WrongResultError(f"{status!r}: {answer[:200]!r}")


async def figure(stack: Stack) -> Sample:
    """Accept REQUESTS, every one a new notification; all must be answered 202, stored, and reach Kafka."""
    run = f"run{next(_runs)}"
    requests = iter([post(PATH, stack.secret, body(run, number)) for number in range(REQUESTS)])
    answered, seconds = await run_load(stack.port, requests, connections=CONNECTIONS, check=_accepted)
    stored = await stack.stored(run)
    if (answered, stored) != (REQUESTS, REQUESTS):
        raise WrongResultError(f"{REQUESTS} sent, {answered} answered, {stored} stored")
    await stack.settled(run)
    return Sample(REQUESTS, seconds)


async def limit(port: int, secret: str) -> Sample:
    """The same requests to the bare route."""
    run = f"bare{next(_runs)}"
    requests = iter([post(PATH, secret, body(run, number)) for number in range(REQUESTS)])
    answered, seconds = await run_load(port, requests, connections=CONNECTIONS, check=_accepted)
    return Sample(answered, seconds)


@asynccontextmanager
async def opened(servers: Servers) -> AsyncIterator[Pair]:
    async with ingest_stack(servers) as stack:
        port = free_port()
        with process([sys.executable, "-m", "bench.bare_route", str(port), stack.secret]):
            await listening(port)
            yield Pair(lambda: figure(stack), lambda: limit(port, stack.secret), lambda: [stack.pid])


BENCH: Final = Bench("ingest", "accepts/s", first=0.5, goal=0.85, open=opened)
