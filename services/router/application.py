"""Which application an event's `source` belongs to: read from PostgreSQL and kept for seconds."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from services.router.store import RouterStore

ANY_SOURCE: Final = "*"
"""An application with this source takes every event that no other application names."""
_TTL_SEC: Final = 5.0
_REREAD_SEC: Final = 1.0


class ApplicationCache:
    """Sources by application. A source it does not know is looked for again, at most once a second."""

    def __init__(self, store: RouterStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._by_source: Mapping[str, int] | None = None
        self._read_at = 0.0

    async def of_source(self, source: str) -> int | None:
        """The application's id, or None. Raises UnavailableError when it must be read and cannot."""
        known = await self._sources(_TTL_SEC)
        if source not in known:
            known = await self._sources(_REREAD_SEC)
        return known.get(source, known.get(ANY_SOURCE))

    async def _sources(self, max_age_sec: float) -> Mapping[str, int]:
        if self._by_source is None or self._clock() - self._read_at >= max_age_sec:
            self._by_source, self._read_at = await self._store.applications(), self._clock()
        return self._by_source
