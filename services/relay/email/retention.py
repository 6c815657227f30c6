"""Old e-mail rows go, with the files that Ulak owns (seed 000 section 11). PENDING and SENDING never do.

File first, then row: killed in between, the row is still there, over, and the next round removes it; the other way
round would leave a file that nothing names any more. The row is locked meanwhile, so that nobody puts it in line again,
and a file that another row names stays for that one.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from services.relay.email.archive import Archive
from services.relay.email.settings import ModelASettings
from shared.core.identifier import EMAIL, public_id
from shared.core.storage import Storage, StorageError, StorageUnavailableError
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger
from shared.runtime.metrics import UPKEEP_REMOVED

_LOCK: Final = 0x756C616B_11  # "ulak", 17: one relay at a time removes from a database
_FILES_SEC: Final = 10.0
"""So long a transaction may stay open for files; the rest of them is the next round's."""
_START: Final = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))

_log = get_logger(__name__)


class Retention:
    """Of one source. Each round is one transaction under the database's lock; a pass begins again when it is through.

    Rows whose files cannot be removed now are passed over until the next pass, so that they hold up no others.
    """

    def __init__(
        self, source: str, pool: Pool, settings: ModelASettings, *, storage: Storage, archive: Archive
    ) -> None:
        self._source = source
        self._pool = pool
        self._settings = settings
        self._storage = storage
        self._archive = archive
        self._after = _START
        self._sql: Final = load_queries("email_messages")

    async def round(self) -> bool:
        """Remove one batch. True if there may be more. Raises asyncpg's errors and the archive's."""
        async with self._pool.acquire() as connection, connection.transaction():
            if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
                return False
            rows = await connection.fetch(
                self._sql["old_email"], self._settings.keep_days, *self._after, self._settings.retention_batch
            )
            handled, gone = await self._without_files(connection, rows)
            if gone:
                await self._archive.remove(connection, self._source, gone)
        UPKEEP_REMOVED.labels("email_messages").inc(len(gone))
        if handled == len(rows) < self._settings.retention_batch:
            self._after = _START
            return False
        self._after = rows[handled - 1]["created_at"], rows[handled - 1]["id"]
        return True

    async def _without_files(self, connection: Connection, rows: Sequence[Any]) -> tuple[int, list[UUID]]:
        """How many of the rows were looked at, and those of them that may go: no file of ours is left behind."""
        gone: list[UUID] = []
        until = time.monotonic() + _FILES_SEC
        away = False
        for position, row in enumerate(rows):
            owned = [ref for ref in _references(row["attachments"]) if self._storage.owns(ref)]
            if not owned:
                gone.append(row["id"])
                continue
            if away:
                continue
            if time.monotonic() >= until:
                return position, gone
            try:
                await self._remove_files(connection, owned, [*gone, row["id"]])
            except StorageError as error:
                away = isinstance(error, StorageUnavailableError)
                _log.error(
                    "email_files_kept", source=self._source, email_id=public_id(EMAIL, row["id"]), error=str(error)
                )
            else:
                gone.append(row["id"])
        return len(rows), gone

    async def _remove_files(self, connection: Connection, files: Sequence[str], going: Sequence[UUID]) -> None:
        shared = {row["file"] for row in await connection.fetch(self._sql["shared_files"], files, going)}
        for file in files:
            if file not in shared:
                await self._storage.delete(file)
                UPKEEP_REMOVED.labels("attachments").inc()


def _references(attachments: Any) -> list[str]:
    """What the row's attachments name; rows that plain SQL wrote may hold anything."""
    entries = attachments if isinstance(attachments, list) else []
    found = [entry.get("storageRef") for entry in entries if isinstance(entry, dict)]
    return list(dict.fromkeys(ref for ref in found if isinstance(ref, str)))
