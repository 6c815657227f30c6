"""Doing several things at once."""

import asyncio
from collections.abc import Coroutine, Iterable


async def together(work: Iterable[Coroutine[object, object, None]]) -> None:
    """Run all at once; the first failure cancels the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in work:
                group.create_task(coroutine)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
