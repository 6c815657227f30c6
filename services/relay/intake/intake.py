"""One class of one source's rows into the ledger.

The rows stay locked in their source while the ledger commits; then they say so. A kill -9 between the two commits lets
the rows go as they were, and whoever takes them next finds their entries and only writes the rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from services.relay.email.plan import put_back, refused
from services.relay.email.row import EmailRow, open_row, seal_row
from services.relay.source import Source
from shared.core.email import EmailRequest
from shared.core.identifier import EMAIL, new_id, public_id
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.sealing import KeyRing
from shared.delivery.prepare import Unprepared
from shared.ledger.ask import EmailAsk, Entered, Refused, email_fingerprint
from shared.ledger.ledger import EmailLedger
from shared.postgres.errors import PartitionMissingError
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import EMAIL_ENDED, EMAIL_TAKEN, EMAIL_UNSEALABLE
from shared.wire.channel import MessageClass

_SQL: Final = load_queries("email_intake")
_APPLICATION_LIMIT: Final = 64
_UNSTORABLE: Final = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Mark:
    """What is written to one row: SENDING with its entry, FAILED, or PENDING for later. None leaves a column."""

    row: EmailRow
    status: str
    notification_id: UUID | None = None
    error: str | None = None
    next_attempt_at: datetime | None = None
    cleared: bool = False


class ApplicationDirectory:
    """The application that a source's e-mails are accounted to: made when it is first needed, then remembered."""

    def __init__(self, own: Pool) -> None:
        self._own = own
        self._known: dict[str, int] = {}

    async def id(self, name: str) -> int:
        """Names are cut to 64 characters, as `ulak api-keys create` takes no longer ones."""
        name = name[:_APPLICATION_LIMIT]
        if name not in self._known:
            self._known[name] = await self._own.fetchval(_SQL["enter_application"], name)
        return self._known[name]


class EmailIntake:
    """Takes the waiting rows of one class of one source. Several may run: rows are shared by SKIP LOCKED."""

    def __init__(
        self,
        source: Source,
        message_class: MessageClass,
        *,
        applications: ApplicationDirectory,
        ledger: EmailLedger,
        rings: RingSource,
        batch: int,
        key_wait_sec: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._source = source
        self._class = message_class
        self._pool = source.pool_of(message_class)
        self._applications = applications
        self._ledger = ledger
        self._rings = rings
        self._batch = batch
        self._key_wait_sec = key_wait_sec
        self._clock = clock

    async def round(self) -> bool:
        """One batch; True if it was full. A row that can never be sent is FAILED and holds up no other."""
        async with self._pool.acquire() as connection, connection.transaction():
            records = await connection.fetch(_SQL["claim_rows"], int(self._class), self._batch)
            if not records:
                return False
            rows = [_row(record) for record in records]
            marks = await self._marks(rows)
            await _write(connection, marks, self._rings.ring)
        self._report(marks)
        return len(rows) == self._batch

    async def _marks(self, rows: Sequence[EmailRow]) -> list[Mark]:
        application = await self._applications.id(self._source.spec.application)
        marks: list[Mark] = []
        asks: list[tuple[EmailRow, EmailAsk]] = []
        for row in rows:
            found = self._opened(row)
            if isinstance(found, Unprepared):
                marks.append(self._unopened(row, found))
            else:
                asks.append((row, self._ask(row, found, application)))
        answers = await self._enter([ask for _, ask in asks])
        return [*marks, *(_mark(row, answers[ask.id]) for row, ask in asks)]

    def _opened(self, row: EmailRow) -> EmailRequest | Unprepared:
        found = open_row(row, self._rings.ring)
        if isinstance(found, Unprepared) and found.status is DeliveryStatus.PENDING and self._rings.refresh():
            return open_row(row, self._rings.ring)
        return found

    def _unopened(self, row: EmailRow, found: Unprepared) -> Mark:
        waits = found.status is DeliveryStatus.PENDING
        if found.reason is Reason.UNSEALABLE:
            EMAIL_UNSEALABLE.labels(self._source.name, "unknown" if waits else "lost").inc()
            _log.error("email_unsealable", source=self._source.name, email_id=str(row.id), detail=found.detail)
        if not waits:
            return _refused(row, found.reason, found.detail)
        later = put_back(row, found.detail, until=self._clock() + timedelta(seconds=self._key_wait_sec))
        return Mark(row, later.status, error=later.error, next_attempt_at=later.next_attempt_at)

    def _ask(self, row: EmailRow, request: EmailRequest, application: int) -> EmailAsk:
        """`enqueue_email` writes class tx where the caller named none, so only a lower one is a wish."""
        return EmailAsk(
            id=new_id(),
            source=self._source.name,
            source_id=row.id,
            application_id=application,
            key=public_id(EMAIL, row.id),
            fingerprint=email_fingerprint(self._rings.ring, request),
            request=request,
            created_at=row.created_at,
            asked_class=row.message_class if row.message_class > MessageClass.TX else None,
            expires_at=row.expires_at,
        )

    async def _enter(self, asks: Sequence[EmailAsk]) -> Mapping[UUID, Entered | Refused]:
        """Answers by the requests' ids. What the database refuses for one row's sake is that row's failure alone."""
        if not asks:
            return {}
        try:
            answers = await self._ledger.enter(asks)
        except _UNSTORABLE as error:
            if isinstance(error, asyncpg.CheckViolationError) and "no partition" in str(error):
                raise PartitionMissingError("today's partition is missing: run `ulak db partitions`") from error
            if len(asks) == 1:
                # The class alone: the message may quote the row.
                return {asks[0].id: Refused(Reason.INVALID, f"the database refused it: {type(error).__name__}")}
            return {id_: answer for ask in asks for id_, answer in (await self._enter([ask])).items()}
        return {ask.id: answer for ask, answer in zip(asks, answers.entries, strict=True)}

    def _report(self, marks: Sequence[Mark]) -> None:
        EMAIL_TAKEN.labels(self._source.name).inc(sum(mark.notification_id is not None for mark in marks))
        for mark in marks:
            if mark.status == "FAILED":
                reason, _, _ = (mark.error or "").partition(":")
                EMAIL_ENDED.labels(mark.status, reason).inc()
                _log.warning("email_refused", source=self._source.name, email_id=str(mark.row.id), reason=reason)


def _mark(row: EmailRow, answer: Entered | Refused) -> Mark:
    if isinstance(answer, Refused):
        return _refused(row, answer.reason, answer.detail)
    return Mark(row, "SENDING", notification_id=answer.notification_id, cleared=True)


def _refused(row: EmailRow, reason: Reason, detail: str) -> Mark:
    record = refused(row, reason, detail)
    return Mark(row, record.status, error=record.error, cleared=record.cleared)


async def _write(connection: Connection, marks: Sequence[Mark], ring: KeyRing) -> None:
    """Rows are sealed with their first mark, but for those that wait for a key: they are sealed already."""
    sealed = [seal_row(mark.row, ring) or (None, None) for mark in marks]
    await connection.execute(
        _SQL["mark_rows"],
        [mark.row.id for mark in marks],
        [mark.status for mark in marks],
        [mark.notification_id for mark in marks],
        [mark.error for mark in marks],
        [mark.next_attempt_at for mark in marks],
        [recipients for recipients, _ in sealed],
        [parameters for _, parameters in sealed],
        [mark.cleared for mark in marks],
    )


def _row(record: Any) -> EmailRow:
    return EmailRow(
        id=record["id"],
        message_class=MessageClass(record["message_class"]),
        template=record["template"],
        type=record["type"],
        locale=record["locale"],
        user_id=record["user_id"],
        recipients=record["recipients"],
        parameters=record["parameters"],
        sealed=record["sealed"],
        attachments=record["attachments"],
        attempt_count=record["attempt_count"],
        outcomes={},
        expires_at=record["expires_at"],
        created_at=record["created_at"],
    )
