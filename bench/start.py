"""Seconds from `ulak dev up` to all ready, warm: a stack that has data and has been up before."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import psutil

from bench.desk import Desk, desk
from bench.harness import Bench, Pair, Sample, Servers
from bench.traffic import orders_delivered
from ops.dev.status import Kind

_ORDERS: Final = 500


def cpu_until_ready(stack: Desk) -> dict[str, float]:
    """CPU seconds of each process up to now. They tell more than the time does where others share the cores."""
    used: dict[str, float] = {}
    for name, pid in stack.pids(*Kind).items():
        times = psutil.Process(pid).cpu_times()
        used[name] = times.user + times.system + times.children_user + times.children_system
    times = psutil.Process(stack.status().supervisor_pid).cpu_times()
    used["supervisor"] = times.user + times.system
    used["set-up"] = times.children_user + times.children_system  # of its children only these have ended
    return used


async def figure(stack: Desk) -> Sample:
    started = time.perf_counter()
    await stack.up()
    seconds = time.perf_counter() - started
    used = cpu_until_ready(stack)
    await stack.down()
    listed = ", ".join(f"{name} {cpu:.1f}" for name, cpu in used.items())
    note = f"CPU s until ready {sum(used.values()):.1f}: {listed}"
    return Sample(0, seconds, value=seconds, note=note, cpu_sec=sum(used.values()))


@asynccontextmanager
async def open_stage(_servers: Servers) -> AsyncIterator[Pair]:
    async with desk() as stack:
        await stack.up()
        await orders_delivered(stack, "start", _ORDERS)
        await stack.down()
        yield Pair(lambda: figure(stack), None)


BENCH: Final = Bench(name="start", unit="s", first=15.0, goal=5.0, open=open_stage, smaller_is_better=True)
