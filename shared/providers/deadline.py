"""Bounded work: one send within its deadline, a batch with so many on the wire at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from shared.core.outcome import Ambiguous, NotSent, Outcome
from shared.core.ports import Prepared, SendWindow

T = TypeVar("T")

_log = structlog.get_logger(__name__)


async def bounded(work: Awaitable[T], timeout_sec: float) -> T:
    """The result of `work`, or TimeoutError after so many seconds; `work` is cancelled then."""
    async with asyncio.timeout(timeout_sec):
        return await work


async def send_each(
    batch: Sequence[Prepared],
    send_one: Callable[[Prepared, float], Awaitable[Outcome]],
    window: SendWindow,
    *,
    concurrency: int,
) -> Sequence[Outcome]:
    """`Sender.send` for providers that take one message a call: at most `concurrency` of them at once.

    send_one(message, deadline_sec) gives the outcome and keeps the deadline itself, because only it knows what was
    written. Should it raise, which is a defect, that message alone is Ambiguous and the surprise is logged.
    """
    outcomes: list[Outcome] = [NotSent("the lease was too short")] * len(batch)
    waiting = iter(range(len(batch)))

    async def work() -> None:
        for index in waiting:
            if not window.may_start():
                return
            outcomes[index] = await _guarded(send_one, batch[index], window.deadline_sec)

    await asyncio.gather(*(work() for _ in range(min(concurrency, len(batch)))))
    return outcomes


async def _guarded(
    send_one: Callable[[Prepared, float], Awaitable[Outcome]], message: Prepared, deadline_sec: float
) -> Outcome:
    try:
        return await send_one(message, deadline_sec)
    except Exception as error:  # noqa: BLE001  one surprise must not take its batch along; it is logged and Ambiguous
        _log.exception("send_surprise", reference=message.key.reference, error_class=type(error).__name__)
        return Ambiguous(f"surprise: {type(error).__name__}", unrecognised=True)
