"""A claim's outcomes as they come: what has its answer is recorded, whatever the rest of the claim still waits for."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from shared.core.outcome import Outcome
from shared.core.ports import Prepared, Sender, SendWindow
from shared.delivery.envelope import bounds, parts

_PARTS: Final = 10
"""Into so many parts a claim is cut at most: a call that is never answered holds up its part alone."""
_PART_AT_LEAST: Final = 5
_TOGETHER_SEC: Final = 0.25
"""So long answers are collected before they are recorded: a provider at its usual pace costs one record a claim."""


async def answers(
    sender: Sender, batch: Sequence[Prepared], window: SendWindow
) -> AsyncGenerator[tuple[Sequence[int], Sequence[Outcome]], None]:
    """Send a claim; yields positions in the batch, ascending, with their outcomes, until each has had its one.

    Recipients of one message are never parted: their outcomes come together.

    Close it (`aclosing`): what is left on the wire then is cancelled, as `Sender.send` is.
    """
    messages = len(bounds(batch)) - 1
    size = max(_PART_AT_LEAST, -(-messages // _PARTS))
    running = {asyncio.create_task(sender.send(batch[start:end], window)): start for start, end in parts(batch, size)}
    try:
        while running:
            done, _ = await asyncio.wait(running, timeout=_TOGETHER_SEC)
            if not done:
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            positions: list[int] = []
            outcomes: list[Outcome] = []
            for start, task in sorted((running.pop(task), task) for task in done):
                part = task.result()
                positions.extend(range(start, start + len(part)))
                outcomes.extend(part)
            yield positions, outcomes
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
