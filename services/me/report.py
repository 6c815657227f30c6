"""What an app tells of a notification: that it arrived, that it was opened. Push providers tell of acceptance alone."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries


class ReportKind(StrEnum):
    RECEIVED = "received"
    OPENED = "opened"


class ReportStore:
    """Reports in PostgreSQL. The first of a kind stands; repeats change nothing. Raises UnavailableError."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sql = load_queries("me")

    async def add(self, user_id: int, notification_id: UUID, kind: ReportKind, at: datetime) -> bool:
        """False if the user has no such notification."""
        with translated():
            found: bool = await self._pool.fetchval(self._sql["add_report"], notification_id, user_id, kind, at)
        return found
