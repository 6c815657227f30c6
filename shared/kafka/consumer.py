"""The consumer engine: batches of decoded messages to a handler, offsets committed after its effects are durable.

One thread per consumer polls and commits (poller.py); handlers run on the event loop. Rules that decide are pure:
offsets.py (what may be committed), intake.py (what is paused), backlog.py (what is handed out and what is stale).
"""

import asyncio
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

from shared.kafka.batch import BatchRunner
from shared.kafka.dead_letters import DeadLetterWriter
from shared.kafka.intake import BufferLimits, RetryDelay
from shared.kafka.metrics import MetricsObserver
from shared.kafka.observer import KafkaObserver
from shared.kafka.poller import Poller
from shared.kafka.reader import Reader
from shared.kafka.record import Handler, Partition, Received, Rejection
from shared.kafka.settings import KafkaSettings
from shared.runtime.logs import get_logger

__all__ = ["Consumer", "Handler", "Partition", "Received", "Rejection", "RetryDelay"]

T = TypeVar("T")

_log = get_logger(__name__)

_LEAVE_SEC: Final = 15.0
"""Beyond the drain: the last commit and leaving the group. A broker that does not answer must not hold a shutdown."""


class Consumer(Generic[T]):
    """One member of a consumer group. Messages are handed out at least once, in batches, without order across them.

    What holds: an offset is committed only when its message and all before it on that partition are done, that is
    handled, or dead-lettered and acknowledged. A handler that raises gets the same batch again, with back-off, while
    polling goes on. A message of a newer release holds its partition. See architecture.md sections 1 and 3.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        group: str,
        topics: Sequence[str],
        decode: Callable[[bytes | None, Mapping[str, bytes]], T],
        handle: Handler[T],
        dead_letters: DeadLetterWriter,
        batch_size: int,
        max_in_flight: int = 1,
        not_before: Callable[[T], datetime | None] | None = None,
        resting: Callable[[], bool] = lambda: False,
        drain_sec: float = 20.0,
        observer: KafkaObserver | None = None,
        retry_delay: RetryDelay | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Nothing connects yet. group and topics are bare names.

        max_in_flight: how many batches are worked on at once, possibly of the same partition. not_before: when a
        message may be worked on at the earliest (delayed topics); its partition is paused till then. resting: while it
        says so, no batch is handed out and all partitions are paused; asked often, from two threads. drain_sec bounds
        the wait for handlers when partitions are revoked and at `stop`. Raises UnsafeOptionError (settings) and
        ValueError.
        """
        if batch_size < 1 or max_in_flight < 1 or not topics:
            raise ValueError("a consumer needs batch_size >= 1, max_in_flight >= 1 and at least one topic")
        self._group = group
        self._batch_size = batch_size
        self._max_in_flight = max_in_flight
        self._drain_sec = drain_sec
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work_event = asyncio.Event()
        self._ended = asyncio.Event()
        self._running = False
        self._failure: BaseException | None = None
        observer = observer or MetricsObserver()
        self._poller: Final = Poller(
            settings,
            group=group,
            topics=topics,
            reader=Reader(decode, not_before),
            limits=BufferLimits.for_batches(batch_size, max_in_flight),
            poll_size=batch_size,
            drain_sec=drain_sec,
            observer=observer,
            clock=clock,
            resting=resting,
            wake=lambda: self._call_soon(self._work_event.set),
            give_up=lambda: self._call_soon(self._batches.wake),
        )
        self._batches: Final = BatchRunner(
            self._poller,
            group=group,
            handle=handle,
            dead_letters=dead_letters,
            retry_delay=retry_delay or RetryDelay(),
            jitter=jitter,
            observer=observer,
        )

    async def run(self) -> None:
        """Consume until `stop`, then drain and leave the group. Once per object.

        Raises MissingTopicError if a topic does not exist when the broker is first reached, ConsumerFailedError after
        a fatal client error. Cancelling it stops the same way.
        """
        self._loop = asyncio.get_running_loop()
        self._running = True
        thread = threading.Thread(target=self._poller.run, name=f"kafka-{self._group}", daemon=True)
        tasks: set[asyncio.Task[None]] = set()
        thread.start()
        try:
            await self._dispatch(tasks)
        except asyncio.CancelledError:
            self._poller.stop()
            await self._await_end()
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._running = False
            self._ended.set()
        failure = self._failure or self._poller.failure
        if failure is not None:
            raise failure

    async def stop(self) -> None:
        """Take nothing new, let handlers finish for at most `drain_sec`, commit, leave the group (G1). Idempotent."""
        self._poller.stop()
        if self._running:
            await self._ended.wait()

    def ready(self) -> bool:
        """Whether this member has joined its group, a broker answers, its topics exist and dead letters go through."""
        poller = self._poller
        return (
            self._running
            and poller.joined
            and poller.vitals.reachable
            and not (poller.stopping or poller.vitals.missing or poller.dead_letters_failing)
        )

    def assignment(self) -> Mapping[Partition, int | None]:
        """The assigned partitions, each with the next offset to commit (None: nothing finished yet)."""
        return self._poller.assignment()

    def paused(self) -> frozenset[Partition]:
        """The partitions that are not read at the moment."""
        return self._poller.paused()

    def _call_soon(self, callback: Callable[[], None]) -> None:
        """From the poll thread to the event loop."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for this thread any more
                loop.call_soon_threadsafe(callback)

    async def _dispatch(self, tasks: set[asyncio.Task[None]]) -> None:
        while not self._poller.finished:
            while len(tasks) < self._max_in_flight:
                batch = self._poller.take(self._batch_size)
                if not batch:
                    break
                task = asyncio.create_task(self._batches.run(batch))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                task.add_done_callback(self._on_batch_end)
            if self._poller.stopping:
                await self._await_end()
                return
            await self._work_event.wait()
            self._work_event.clear()

    def _on_batch_end(self, task: asyncio.Task[None]) -> None:
        """A batch that ends by an error is a fault of the engine: its partitions could never be committed again."""
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._poller.stop()
        self._work_event.set()

    async def _await_end(self) -> None:
        """Wait for the thread to drain and leave; shutdown goes on without it if the broker does not let it."""
        deadline = asyncio.get_running_loop().time() + self._drain_sec + _LEAVE_SEC
        while not self._poller.finished:
            remaining = deadline - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(max(remaining, 0.0)):
                    await self._work_event.wait()
            except TimeoutError:
                _log.error("consumer_left_behind", group=self._group)
                return
            self._work_event.clear()
