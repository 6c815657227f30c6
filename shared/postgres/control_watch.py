"""The controls as this process knows them: asked for twice a second, and at once where a claim finds them changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from shared.core.control import NONE, Controls
from shared.postgres.control import control_revision, load_controls
from shared.postgres.pool import Pool
from shared.runtime.metrics import CONTROL_FAILURES, CONTROL_REVISION

_log = structlog.get_logger(__name__)

POLL_SEC: Final = 0.5
"""A pause acts within a second on what no claim protects: lanes that are read, routes, quotas."""


class ControlWatch:
    """`current` costs nothing to ask. While PostgreSQL is away it stays as it was last known. For one event loop."""

    def __init__(self, pool: Pool, *, poll_sec: float = POLL_SEC) -> None:
        self._pool = pool
        self._poll_sec = poll_sec
        self._current = NONE
        self._reading = asyncio.Lock()

    @property
    def current(self) -> Controls:
        """The newest that was read; `NONE` before the first reading, which `watching` waits for."""
        return self._current

    async def other_than(self, revision: int) -> Controls:
        """What is said now that `revision` is known not to hold any more. UnavailableError if it must be read and
        cannot be.

        Several that ask at once read once. A revision may also go back: the database was restored.
        """
        async with self._reading:
            if self._current.revision == revision:
                self._current = await load_controls(self._pool)
                CONTROL_REVISION.set(self._current.revision)
            return self._current

    async def run(self) -> None:
        """Keep `current` up to date until cancelled, through whatever happens to PostgreSQL."""
        known = True
        while True:
            await asyncio.sleep(self._poll_sec)
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001  a watch that ended would never hear of a pause again
                CONTROL_FAILURES.inc()
                if known:
                    _log.warning("controls_not_read", error=str(error), effect="those last known stay in force")
                known = False
                continue
            known = True

    async def _look(self) -> None:
        revision = self._current.revision
        if await control_revision(self._pool) == revision:
            return
        controls = await self.other_than(revision)
        _log.info(
            "controls_changed",
            revision=controls.revision,
            pauses=[f"{each.kind} {each.key}" for each in controls.pauses],
            drains=sorted(controls.drains),
            quotas=len(controls.quotas),
            caller_quotas=len(controls.caller_quotas),
        )


@asynccontextmanager
async def watching(pool: Pool, *, poll_sec: float = POLL_SEC) -> AsyncIterator[ControlWatch]:
    """A watch that has read once, at work for the length of the block. UnavailableError if the first reading fails."""
    watch = ControlWatch(pool, poll_sec=poll_sec)
    await watch.other_than(NONE.revision)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
