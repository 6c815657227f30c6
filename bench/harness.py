"""How every bench is run: figure and bare limit in turn, at least three pairs, the median ratio, CPU and memory.

A bench is one module with a `BENCH`; `python -m bench --only push` runs it. It checks its own result: a message lost or
sent twice raises `WrongResultError`, because a fast wrong answer is worth nothing.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final

import psutil

PAIRS: Final = 3


class WrongResultError(Exception):
    """The bench did something else than it should have: messages lost, doubled or refused."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The real servers a bench may use."""

    postgres_dsn: str
    kafka_bootstrap: str
    redis_url: str

    @classmethod
    def from_environment(cls) -> "Servers":
        return cls(
            os.environ["ULAK_POSTGRES_DSN"], os.environ["ULAK_KAFKA_BOOTSTRAP_SERVERS"], os.environ["ULAK_REDIS_URL"]
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: `count` things done in `seconds`. `value` is the figure itself where it is no rate: a latency in
    seconds, memory in MiB. A count of 0 says that CPU per thing done means nothing here. `cpu_sec` is of processes
    that the run started itself, which nobody could watch from outside.
    """

    count: int
    seconds: float
    value: float | None = None
    note: str = ""
    cpu_sec: float = 0.0

    @property
    def figure(self) -> float:
        return self.value if self.value is not None else self.count / self.seconds


@dataclass(frozen=True, slots=True)
class Pair:
    """The two things a bench compares. `processes` are pids besides this one whose CPU and memory count."""

    figure: Callable[[], Awaitable[Sample]]
    limit: Callable[[], Awaitable[Sample]] | None
    processes: Callable[[], Sequence[int]] = field(default=tuple)


@dataclass(frozen=True, slots=True)
class Bench:
    """A row of the bench table. `first` and `goal` are ratios to the limit, or bounds of the figure itself where the
    pair has no limit; for latencies, start and memory smaller is better.
    """

    name: str
    unit: str
    first: float | None
    goal: float | None
    open: Callable[[Servers], AbstractAsyncContextManager[Pair]]
    smaller_is_better: bool = False
    pairs: int = PAIRS


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    unit: str
    figure: float
    limit: float | None
    ratio: float | None
    first: float | None
    goal: float | None
    smaller_is_better: bool
    cpu_sec_per_100k: float | None
    peak_mib: float
    foreign_load: float
    notes: tuple[str, ...]

    @property
    def reached(self) -> bool | None:
        """Whether the first column of the table is met: by the ratio, or by the figure itself where nothing was taken
        to compare it with. None where the row is only measured.
        """
        if self.first is None:
            return None
        value = self.figure if self.ratio is None else self.ratio
        return value <= self.first if self.smaller_is_better else value >= self.first


async def run_bench(bench: Bench, servers: Servers) -> Result:
    """Take the pairs and sum up. CPU seconds are of this process and those the bench names, during figures only."""
    figures: list[Sample] = []
    limits: list[Sample] = []
    cpu = 0.0
    peak = 0.0
    load: list[float] = []
    async with bench.open(servers) as pair:
        for _ in range(bench.pairs):
            if pair.limit is not None:
                limits.append(await pair.limit())
            watched = [psutil.Process(), *(psutil.Process(pid) for pid in pair.processes())]
            before, machine_before, started = _cpu(watched), _machine_cpu(), time.perf_counter()
            async with _peak(watched) as top:
                figures.append(await pair.figure())
            used = _cpu(watched) - before + figures[-1].cpu_sec
            elapsed = time.perf_counter() - started
            cpu += used
            peak = max(peak, top.mib)
            load.append(max(0.0, (_machine_cpu() - machine_before - used) / elapsed))
    ratios = [f.figure / limit.figure for f, limit in zip(figures, limits, strict=False)]
    count = sum(sample.count for sample in figures)
    return Result(
        name=bench.name,
        unit=bench.unit,
        figure=statistics.median(sample.figure for sample in figures),
        limit=statistics.median(sample.figure for sample in limits) if limits else None,
        ratio=statistics.median(ratios) if ratios else None,
        first=bench.first,
        goal=bench.goal,
        smaller_is_better=bench.smaller_is_better,
        cpu_sec_per_100k=cpu * 100_000 / count if count else None,
        peak_mib=peak,
        foreign_load=statistics.median(load),
        notes=tuple(dict.fromkeys(sample.note for sample in figures if sample.note)),
    )


def _cpu(processes: Sequence[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def _machine_cpu() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system)


@dataclass
class _Top:
    mib: float = 0.0


class _peak:  # noqa: N801  a context manager that reads as a verb's object
    """Watches resident memory of processes, ten times a second; `mib` is the highest sum."""

    def __init__(self, processes: Sequence[psutil.Process]) -> None:
        self._processes = processes
        self._top = _Top()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> _Top:
        self._task = asyncio.create_task(self._watch())
        return self._top

    async def __aexit__(self, *_error: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            resident = sum(process.memory_info().rss for process in self._processes if process.is_running())
            self._top.mib = max(self._top.mib, resident / 2**20)
            await asyncio.sleep(0.1)


async def until(holds: Callable[[], Awaitable[bool]], *, timeout_sec: float, what: str) -> None:
    """Poll a condition for benches that wait for another process; WrongResultError when it does not come true."""
    deadline = time.monotonic() + timeout_sec
    while not await holds():
        if time.monotonic() > deadline:
            raise WrongResultError(f"{what} did not happen within {timeout_sec:.0f} s")
        await asyncio.sleep(0.01)
