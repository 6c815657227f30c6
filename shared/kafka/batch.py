"""One batch from taken to finished: the handler until it succeeds, dead letters until they are acknowledged."""

import asyncio
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Generic, Protocol, TypeVar

from shared.kafka.backlog import Entry
from shared.kafka.dead_letters import DeadLetter, DeadLetterWriter
from shared.kafka.intake import RetryDelay
from shared.kafka.observer import KafkaObserver
from shared.kafka.record import Handler, Rejection
from shared.runtime.logs import get_logger

T = TypeVar("T")

_log = get_logger(__name__)


class Desk(Protocol[T]):
    """Where batches come from and results go: what of the poller this file needs."""

    dead_letters_failing: bool

    @property
    def stopping(self) -> bool: ...
    def live(self, entries: Sequence[Entry[T]]) -> list[Entry[T]]: ...
    def finish(self, entries: Sequence[Entry[T]]) -> None: ...
    def release(self, entries: Sequence[Entry[T]]) -> None: ...


class BatchRunner(Generic[T]):
    """Works on the batches of one consumer, several at once. Belongs to the event loop."""

    def __init__(
        self,
        desk: Desk[T],
        *,
        group: str,
        handle: Handler[T],
        dead_letters: DeadLetterWriter,
        retry_delay: RetryDelay,
        jitter: Callable[[], float],
        observer: KafkaObserver,
    ) -> None:
        self._desk = desk
        self._group = group
        self._handle = handle
        self._dead_letters = dead_letters
        self._retry_delay = retry_delay
        self._jitter = jitter
        self._observer = observer
        self._give_up = asyncio.Event()
        self._failing: set[int] = set()

    def wake(self) -> None:
        """Let batches that wait for another try look whether their partitions are still ours."""
        self._give_up.set()
        self._give_up = asyncio.Event()

    async def run(self, taken: list[Entry[T]]) -> None:
        """See one batch through; its offsets count when everything about it is durable.

        Entries whose partition is revoked or lost meanwhile leave the batch before its next try. What is not finished
        in the end (cancelled, stopping) is released: its offsets stay uncommitted.
        """
        batch = _Batch(self._desk.live(taken))
        try:
            if await self._work(batch) and await self._bury(batch):
                self._desk.finish(batch.entries)
                batch.entries = []
        finally:
            self._failing.discard(id(batch))
            self._desk.dead_letters_failing = bool(self._failing)
            self._desk.release(batch.entries)

    async def _work(self, batch: "_Batch[T]") -> bool:
        """Call the handler until it returns; gathers the batch's dead letters. False if the batch was given up."""
        attempt = 0
        while batch.entries:
            attempt += 1
            readable = batch.readable()
            started = time.monotonic()
            try:
                rejections = await self._call(readable)
            # Whatever it is, the batch is tried again and nothing is lost.
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see above
                _let_our_own_end_pass(error)
                self._observer.handler_failed(self._group, type(error).__name__)
                _log.error("handler_failed", **self._failure(error, attempt), messages=len(readable))
                if not await self._back_off(batch, attempt):
                    return False
                continue
            self._observer.batch_handled(self._group, len(readable), time.monotonic() - started)
            batch.judge(readable, rejections, attempt)
            return True
        return False

    async def _call(self, readable: Sequence[Entry[T]]) -> Sequence[Rejection]:
        messages = [entry.received for entry in readable if entry.received is not None]
        if not messages:
            return ()
        rejections = await self._handle(messages)
        for rejection in rejections:
            if not 0 <= rejection.index < len(messages):
                raise ValueError(f"the handler rejected message {rejection.index} of {len(messages)}")
        return rejections

    async def _bury(self, batch: "_Batch[T]") -> bool:
        """Write the dead letters however long it takes; until then no new batch is handed out. False if given up."""
        attempt = 0
        while letters := batch.letters():
            attempt += 1
            try:
                await self._dead_letters.write(letters)
            # Never commit past it: it is tried again, and the consumer is not ready until it succeeds.
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see above
                _let_our_own_end_pass(error)
                self._failing.add(id(batch))
                self._desk.dead_letters_failing = True
                self._observer.dead_letter_write_failed(self._dead_letters.dlq_topic)
                _log.error(
                    "dead_letter_write_failed",
                    **self._failure(error, attempt),
                    dlq_topic=self._dead_letters.dlq_topic,
                    messages=len(letters),
                )
                if not await self._back_off(batch, attempt):
                    return False
                continue
            return True
        return True

    async def _back_off(self, batch: "_Batch[T]", attempt: int) -> bool:
        """Wait for the next try. False if there is none: the consumer stops, or nothing of the batch is ours."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._retry_delay.after(attempt, self._jitter())
        while True:
            give_up = self._give_up
            batch.entries = self._desk.live(batch.entries)
            if self._desk.stopping or not batch.entries:
                return False
            remaining = deadline - loop.time()
            if remaining <= 0:
                return True
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await give_up.wait()

    def _failure(self, error: BaseException, attempt: int) -> Mapping[str, object]:
        """What may be logged of an error: never its message, which may quote a row or a body."""
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        return {
            "group": self._group,
            "error_class": type(error).__name__,
            "error_at": [f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames],
            "attempt": attempt,
        }


class _Batch(Generic[T]):
    """What is left of a batch, and which of it is dead."""

    def __init__(self, entries: list[Entry[T]]) -> None:
        self.entries = entries
        self._dead: dict[int, DeadLetter] = {}

    def readable(self) -> list[Entry[T]]:
        return [entry for entry in self.entries if entry.received is not None]

    def judge(self, readable: Sequence[Entry[T]], rejections: Sequence[Rejection], attempts: int) -> None:
        """Gather the dead: what could not be decoded, and what the handler rejected in its attempts-th call."""
        for entry in self.entries:
            if entry.problem is not None:
                self._dead[id(entry)] = _letter(entry, entry.problem.reason, entry.problem.detail, 1)
        for rejection in rejections:
            entry = readable[rejection.index]
            self._dead[id(entry)] = _letter(entry, rejection.reason, rejection.detail, attempts)

    def letters(self) -> list[DeadLetter]:
        """The dead among the entries that are left."""
        return [self._dead[id(entry)] for entry in self.entries if id(entry) in self._dead]


def _let_our_own_end_pass(error: BaseException) -> None:
    """Raise again if it is this task that is cancelled. A cancellation that leaks out of a handler (it awaited a task
    that somebody cancelled) is a failure like any other: ending here would leave the batch undone for good.
    """
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


def _letter(entry: Entry[T], error_class: str, error_message: str, attempts: int) -> DeadLetter:
    return DeadLetter(
        topic=entry.partition.topic,
        partition=entry.partition.number,
        offset=entry.offset,
        key=entry.raw.key,
        value=entry.raw.value,
        headers=entry.raw.headers,
        error_class=error_class,
        error_message=error_message,
        attempts=attempts,
        first_seen=entry.first_seen,
    )
