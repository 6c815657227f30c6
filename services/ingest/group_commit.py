"""Concurrent requests share one database transaction, so that the rate is not one fsync per request.

No artificial wait: whatever queued while at most `max_in_flight` commits are on their way goes into the next one
(docs/performance.md: a wait of 2 ms made it slower).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from shared.runtime.metrics import GROUP_COMMIT_SIZE

T = TypeVar("T")
R = TypeVar("R")

MAX_IN_FLIGHT: Final = 3
MAX_GROUP: Final = 500


class GroupError(Exception):
    """Base of what a submitter may get beside what commit raised.

    GroupError
    +-- BadRowError      the database refused this row for what it holds; raised by commit, isolated by the group
    +-- OverloadedError  too many wait already: come again later
    """


class BadRowError(GroupError):
    """A row that can never be stored as it is; commit raises it for the whole group, which is then split."""


class OverloadedError(GroupError):
    pass


class _Bundle(Generic[T, R]):
    """Items that came together and are answered together: one future for all, because a batch has hundreds."""

    __slots__ = ("future", "items")

    def __init__(self, items: Sequence[T], future: "asyncio.Future[Sequence[R | Exception]]") -> None:
        self.items = items
        self.future = future


class GroupCommit(Generic[T, R]):
    """Gathers items, commits them in groups, and answers each submitter with its own results.

    commit takes a group and answers one result per item, in order; all or nothing. When it raises BadRowError the
    group is split until the bad rows stand alone, so that one of them never fails the others; any other exception is
    every submitter's. Belongs to one event loop.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_group: int = MAX_GROUP,
        max_waiting: int = 20_000,
    ) -> None:
        self._commit = commit
        self._max_in_flight = max_in_flight
        self._max_group = max_group
        self._max_waiting = max_waiting
        self._bundles: deque[_Bundle[T, R]] = deque()
        self._waiting = 0
        self._running: set[asyncio.Task[None]] = set()
        self._scheduled = False

    async def submit(self, item: T) -> R:
        """The item's result, once its group is durable. Raises OverloadedError, BadRowError or what commit raised."""
        (result,) = await self._enqueue((item,))
        if isinstance(result, Exception):
            raise result
        return result

    async def submit_all(self, items: Sequence[T]) -> list[R | Exception]:
        """Results in order, an exception where one item failed; OverloadedError if they do not fit as a whole."""
        self._check_room(len(items))
        parts = [items[start : start + self._max_group] for start in range(0, len(items), self._max_group)]
        return [result for part in await asyncio.gather(*map(self._enqueue, parts)) for result in part]

    async def drain(self) -> None:
        """Return when nothing waits and nothing is on its way."""
        while self._bundles or self._running:
            if not self._running:
                self._start()
            await asyncio.wait(self._running)

    def _check_room(self, count: int) -> None:
        if self._waiting + count > self._max_waiting:
            raise OverloadedError(f"{self._waiting} requests wait for the database, {count} more are too many")

    def _enqueue(self, items: Sequence[T]) -> "asyncio.Future[Sequence[R | Exception]]":
        self._check_room(len(items))
        loop = asyncio.get_running_loop()
        bundle: _Bundle[T, R] = _Bundle(items, loop.create_future())
        self._bundles.append(bundle)
        self._waiting += len(items)
        if not self._scheduled and len(self._running) < self._max_in_flight:
            # At the end of this turn of the loop: what other connections brought in the same turn comes along.
            self._scheduled = True
            loop.call_soon(self._start)
        return bundle.future

    def _start(self) -> None:
        self._scheduled = False
        while self._bundles and len(self._running) < self._max_in_flight:
            task = asyncio.create_task(self._run(self._next_group()))
            self._running.add(task)
            task.add_done_callback(self._finished)

    def _next_group(self) -> list[_Bundle[T, R]]:
        """Whole bundles, up to max_group items (no bundle is larger than that)."""
        group: list[_Bundle[T, R]] = []
        size = 0
        while self._bundles and size + len(self._bundles[0].items) <= self._max_group:
            bundle = self._bundles.popleft()
            group.append(bundle)
            size += len(bundle.items)
        self._waiting -= size
        return group

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _run(self, group: list[_Bundle[T, R]]) -> None:
        """Commit, and answer every bundle with its slice of the results."""
        items = [item for bundle in group for item in bundle.items]
        GROUP_COMMIT_SIZE.observe(len(items))
        results = await self._results(items)
        start = 0
        for bundle in group:
            end = start + len(bundle.items)
            if not bundle.future.done():  # a submitter that hung up
                bundle.future.set_result(results[start:end])
            start = end

    async def _results(self, items: Sequence[T]) -> Sequence[R | Exception]:
        """One result or exception per item; never raises, or a submitter would wait for good."""
        try:
            return await self._commit(items)
        except BadRowError as error:
            if len(items) == 1:
                return [error]
            middle = len(items) // 2
            return [*await self._results(items[:middle]), *await self._results(items[middle:])]
        except Exception as error:  # noqa: BLE001  whatever it is, it is the submitters' to hear
            return [error] * len(items)
