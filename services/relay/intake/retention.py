"""Links that are closed and old go, and with those of `POST /emails` the files that Ulak owns.

As a source's rows do (services/relay/email/retention.py): a file goes before its link, and stays for another that
names it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from shared.core.storage import Storage, StorageError, StorageUnavailableError
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger
from shared.runtime.metrics import UPKEEP_REMOVED

_SQL: Final = load_queries("email_intake")
_BATCH: Final = 100
_START: Final = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))

_log = get_logger(__name__)


class LinkRetention:
    """A source's own rows, and their files, are the source's: its retention removes those.

    Links whose files cannot be removed now are passed over until the next pass, so that they hold up no others.
    """

    def __init__(self, own: Pool, storage: Storage, *, keep_days: int) -> None:
        self._own = own
        self._storage = storage
        self._keep_days = keep_days
        self._after = _START

    async def round(self) -> bool:
        """One batch; True if there may be more."""
        async with self._own.acquire() as connection, connection.transaction():
            links = await connection.fetch(_SQL["old_intakes"], self._keep_days, *self._after, _BATCH)
            gone = await self._without_files(connection, links)
            if gone:
                await connection.execute(_SQL["remove_intakes"], gone)
        UPKEEP_REMOVED.labels("email_intakes").inc(len(gone))
        full = len(links) == _BATCH
        self._after = (links[-1]["created_at"], links[-1]["notification_id"]) if full else _START
        return full

    async def _without_files(self, connection: Connection, links: Sequence[Any]) -> list[UUID]:
        """Those that leave no file of ours behind. A storage that is away is not asked again in this batch."""
        files = {file for link in links for file in link["owned_files"] if self._storage.owns(file)}
        ids = [link["notification_id"] for link in links]
        if not files:
            return ids
        kept = {row["file"] for row in await connection.fetch(_SQL["files_in_use"], sorted(files), ids)}
        stuck: set[str] = set()
        away = False
        for file in sorted(files - kept):
            if away:
                stuck.add(file)
                continue
            try:
                await self._storage.delete(file)
            except StorageError as error:
                away = isinstance(error, StorageUnavailableError)
                stuck.add(file)
                _log.error("email_files_kept", error_class=type(error).__name__, error=str(error))
            else:
                UPKEEP_REMOVED.labels("attachments").inc()
        return [link["notification_id"] for link in links if not stuck.intersection(link["owned_files"])]
