"""Resident MiB of every service, idle and at its highest under load. The figure is the largest service under load."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import psutil

from bench.desk import Desk, desk
from bench.harness import Bench, Pair, Sample, Servers
from bench.traffic import codes_delivered, orders_delivered
from ops.dev.status import Kind

_ORDERS: Final = 2000
_CODES: Final = 200
_EVERY_SEC: Final = 0.1


def resident_mib(stack: Desk) -> dict[str, float]:
    """Of each process now. Servers' are left out: their memory is theirs to set, and PostgreSQL's is shared."""
    return {
        name: psutil.Process(pid).memory_info().rss / 2**20
        for name, pid in stack.pids(Kind.SIMULATOR, Kind.SERVICE).items()
    }


async def load(stack: Desk) -> None:
    await orders_delivered(stack, "memory", _ORDERS)
    await codes_delivered(stack, _CODES)


async def highest_during_load(stack: Desk) -> Mapping[str, float]:
    highest = resident_mib(stack)
    loading = asyncio.create_task(load(stack))
    while not loading.done():
        await asyncio.wait({loading}, timeout=_EVERY_SEC)
        highest = {name: max(mib, highest[name]) for name, mib in resident_mib(stack).items()}
    await loading
    return highest


async def figure(stack: Desk) -> Sample:
    started = time.perf_counter()
    idle = resident_mib(stack)
    loaded = await highest_during_load(stack)
    services = stack.pids(Kind.SERVICE)
    listed = ", ".join(f"{name} {idle[name]:.0f} -> {loaded[name]:.0f}" for name in loaded)
    return Sample(
        0,
        time.perf_counter() - started,
        value=max(mib for name, mib in loaded.items() if name in services),
        note=f"idle -> under {_ORDERS} orders and {_CODES} codes: {listed}",
    )


@asynccontextmanager
async def open_stage(_servers: Servers) -> AsyncIterator[Pair]:
    async with desk() as stack:
        await stack.up()
        yield Pair(lambda: figure(stack), None, lambda: list(stack.pids(*Kind).values()))


BENCH: Final = Bench(
    name="memory", unit="MiB", first=None, goal=120.0, open=open_stage, smaller_is_better=True, pairs=1
)
