"""Rows whose relay died or stalled: back in line once their lease has run out (seed 000 section 6)."""

from typing import Final

from services.relay.email.store import EmailStore
from shared.runtime.logs import get_logger
from shared.runtime.metrics import EMAIL_REAPED

_BATCH: Final = 500

_log = get_logger(__name__)


class EmailReaper:
    """Of one source. Nobody can tell whether a reaped mail had gone out: it is sent again, under its Message-ID."""

    def __init__(self, source: str, store: EmailStore) -> None:
        self._source = source
        self._store = store

    async def round(self) -> bool:
        """Put back what is stuck; True if there may be more."""
        reaped = await self._store.reap(_BATCH)
        if reaped:
            EMAIL_REAPED.labels(self._source).inc(reaped)
            _log.warning("email_reaped", source=self._source, rows=reaped)
        return reaped == _BATCH
