"""Concurrent requests share one database transaction, so that the rate is not one fsync per request.

No artificial wait: whatever queued while at most `max_in_flight` commits are on their way goes into the next one
(bench.md: a wait of 2 ms made it slower).
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


class GroupCommit(Generic[T, R]):
    """Gathers items, commits them in groups, and answers each submitter with its own result.

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
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._scheduled = False

    async def submit(self, item: T) -> R:
        """The item's result, once its group is durable. Raises OverloadedError, BadRowError or what commit raised."""
        return await self._enqueue((item,))[0]

    async def submit_all(self, items: Sequence[T]) -> list[R | BaseException]:
        """Results in order, an exception where one item failed; OverloadedError if they do not fit as a whole."""
        return await asyncio.gather(*self._enqueue(items), return_exceptions=True)

    async def drain(self) -> None:
        """Return when nothing waits and nothing is on its way."""
        while self._waiting or self._running:
            if not self._running:
                self._start()
            await asyncio.wait(self._running)

    def _enqueue(self, items: Sequence[T]) -> list[asyncio.Future[R]]:
        if len(self._waiting) + len(items) > self._max_waiting:
            raise OverloadedError(f"{len(self._waiting)} requests wait for the database")
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[R]] = [loop.create_future() for _ in items]
        self._waiting.extend(zip(items, futures, strict=True))
        if not self._scheduled and len(self._running) < self._max_in_flight:
            # At the end of this turn of the loop: what other connections brought in the same turn comes along.
            self._scheduled = True
            loop.call_soon(self._start)
        return futures

    def _start(self) -> None:
        self._scheduled = False
        while self._waiting and len(self._running) < self._max_in_flight:
            size = min(self._max_group, len(self._waiting))
            group = [self._waiting.popleft() for _ in range(size)]
            task = asyncio.create_task(self._run(group))
            self._running.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _run(self, group: list[tuple[T, asyncio.Future[R]]]) -> None:
        """Commit, and answer; never raises, or a submitter would wait for good."""
        GROUP_COMMIT_SIZE.observe(len(group))
        try:
            results = await self._commit([item for item, _ in group])
            for (_, future), result in zip(group, results, strict=True):
                if not future.done():  # a submitter that hung up
                    future.set_result(result)
        except BadRowError as error:
            if len(group) == 1:
                _fail(group, error)
                return
            middle = len(group) // 2
            await self._run(group[:middle])
            await self._run(group[middle:])
        except Exception as error:  # noqa: BLE001  whatever it is, it is the submitters' to hear
            _fail(group, error)


def _fail(group: Sequence[tuple[T, asyncio.Future[R]]], error: BaseException) -> None:
    for _, future in group:
        if not future.done():
            future.set_exception(error)
