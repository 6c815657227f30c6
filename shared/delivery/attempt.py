"""One attempt, from the claim to the record: for the Kafka workers' deliveries and for Model A's e-mail alike."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

import structlog

from shared.core.outcome import Outcome
from shared.core.ports import Prepared, Sender, SendWindow
from shared.delivery.answers import answers
from shared.postgres.errors import UNAVAILABLE

_RECORD_RETRY_SEC: Final = 0.2
RECORD_SEC: Final = 1.0
"""Of a lease, what is kept for recording: a send may end as late as its deadline and must still find its claim."""

_log = structlog.get_logger(__name__)

R = TypeVar("R")
T = TypeVar("T")

Finish = Callable[[Sequence[R], Sequence[Outcome], bool], Awaitable[None]]
"""Records rows with their outcomes; the flag says that these are the claim's last ones, so that its lease ends."""


def window(lease_end: float, deadline_sec: float, stopping: Callable[[], bool]) -> SendWindow:
    """For sends of a claim until `lease_end` (monotonic): none starts that might outlast it, or after a stop."""
    last_start = lease_end - deadline_sec - RECORD_SEC
    return SendWindow(deadline_sec, lambda: not stopping() and time.monotonic() <= last_start)


async def send_claimed(
    sender: Sender,
    claimed: Sequence[tuple[R, Prepared]],
    send_window: SendWindow,
    *,
    finish: Finish[R],
    sent: Callable[[], Awaitable[None]],
) -> None:
    """Send a claim and record its outcomes as they come; each row is finished once.

    sent is awaited when the last answer is there, before its record: the wire need not wait for it. A cancelled call
    (a drain that ran out) still records what the provider has answered.
    """
    left = len(claimed)
    async with aclosing(answers(sender, [prepared for _, prepared in claimed], send_window)) as answered:
        async for positions, outcomes in answered:
            left -= len(positions)
            if not left:
                await sent()
            rows = [claimed[position][0] for position in positions]
            # Shielded: a drain that runs out may cancel us, but not between the provider's word and our record.
            await asyncio.shield(asyncio.ensure_future(finish(rows, outcomes, not left)))


async def record_while_leased(write: Callable[[], Awaitable[T]], lease_end: float) -> T:
    """Write outcomes; while the lease lasts, a database that is away is waited for rather than the outcome lost."""
    while True:
        try:
            return await write()
        except UNAVAILABLE as error:
            if time.monotonic() >= lease_end:
                raise
            _log.warning("record_retried", error_class=type(error).__name__)
            await asyncio.sleep(_RECORD_RETRY_SEC)
