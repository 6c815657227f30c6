"""One send within its deadline."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def bounded(work: Awaitable[T], timeout_sec: float) -> T:
    """The result of `work`, or TimeoutError after so many seconds; `work` is cancelled then."""
    async with asyncio.timeout(timeout_sec):
        return await work
