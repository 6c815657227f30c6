"""What became of the messages of one source, written back to their rows: read from the ledger, not events (ADR 0007).

A message's link stays open until its row says the end. A source that is down keeps its links open, and so does a kill
-9 between the row's commit and the link's: the next round finds the row written and only closes the link.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from services.relay.hints import bounds
from services.relay.intake.end import Ended, RowEnd, row_end
from services.relay.source import Source
from shared.core.address import target_key
from shared.core.email import InvalidEmailError, recipients_from_json
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.sealing import KeyRing, Purpose, SealError, open_sealed
from shared.ledger.ask import NO_SOURCE
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import EMAIL_ENDED, EMAIL_WRITE_BACK

_SQL: Final = load_queries("email_intake")
_FIRST: Final = UUID(int=0)

_log = get_logger(__name__)


class OpenLinks:
    """The messages of one source whose end is not written back yet, a page after another.

    Round and round over all of them, so that many that wait do not hide one that is over.
    """

    def __init__(self, own: Pool, source: str, page: int) -> None:
        self._own = own
        self._source = source
        self._page = page
        self._after = _FIRST
        self.more = False
        """Whether the last page was full."""

    async def over(self) -> dict[UUID, UUID]:
        """Those of the next page that are over: the source's row by notification. One query where nothing is open."""
        rows = await self._own.fetch(_SQL["open_intakes"], self._source, self._after, self._page)
        self.more = len(rows) == self._page
        self._after = rows[-1]["notification_id"] if self.more else _FIRST
        if not rows:
            return {}
        ids = [row["notification_id"] for row in rows]
        found = await self._own.fetch(_SQL["waiting_among"], ids, *bounds(ids))
        waiting = {row["notification_id"] for row in found}
        return {row["notification_id"]: row["source_id"] for row in rows if row["notification_id"] not in waiting}

    async def close(self, notification_ids: Sequence[UUID]) -> None:
        if notification_ids:
            await self._own.execute(_SQL["settle_intakes"], notification_ids)


class Closing:
    """For what came by `POST /emails`: there is no row to tell, the link is only closed."""

    def __init__(self, own: Pool, *, page: int) -> None:
        self._links = OpenLinks(own, NO_SOURCE, page)

    async def round(self) -> bool:
        """One page; True if there is another."""
        await self._links.close(list(await self._links.over()))
        return self._links.more


class WriteBack:
    """One source's. Several may run: each change names what it expects. clock returns the present moment, aware."""

    def __init__(
        self, own: Pool, source: Source, rings: RingSource, *, page: int, clock: Callable[[], datetime]
    ) -> None:
        self._own = own
        self._source = source
        self._rings = rings
        self._clock = clock
        self._links = OpenLinks(own, source.name, page)

    async def round(self) -> bool:
        """One page; True if there is another. The source is not asked while nothing is over."""
        over = await self._links.over()
        if over:
            await self._links.close(await self._write(over, await self._ended(list(over))))
        return self._links.more

    async def _ended(self, ids: Sequence[UUID]) -> Mapping[UUID, Sequence[Ended]]:
        found: defaultdict[UUID, list[Ended]] = defaultdict(list)
        for record in await self._own.fetch(_SQL["ended_deliveries"], ids, *bounds(ids)):
            found[record["notification_id"]].append(_ended(record))
        return found

    async def _write(self, over: Mapping[UUID, UUID], ended: Mapping[UUID, Sequence[Ended]]) -> list[UUID]:
        """Those whose row needs no more of us, once that is committed.

        A row that is PENDING has been let go by an intake that died before it could say that the ledger has it; the
        next intake says so, and then it is told the end.
        """
        async with self._source.pool.acquire() as connection, connection.transaction():
            rows = {row["id"]: row for row in await connection.fetch(_SQL["lock_rows"], sorted(over.values()))}
            ends = {
                id_: row_end(ended[id_], self._positions(row))
                for id_, source_id in over.items()
                if (row := rows.get(source_id)) is not None
                and (row["status"], row["notification_id"]) == ("SENDING", id_)
            }
            if ends:
                await connection.execute(
                    _SQL["end_rows"],
                    [over[id_] for id_ in ends],
                    list(ends),
                    [end.status for end in ends.values()],
                    [end.outcomes for end in ends.values()],
                    [end.error for end in ends.values()],
                    [end.attempts for end in ends.values()],
                    [end.provider for end in ends.values()],
                    [end.provider_message_id for end in ends.values()],
                    [end.sent_at for end in ends.values()],
                )
        self._report(ends, ended)
        return [
            id_ for id_, source_id in over.items() if source_id not in rows or rows[source_id]["status"] != "PENDING"
        ]

    def _positions(self, row: Any) -> Mapping[bytes, int]:
        """Where each recipient stands in the row; nothing if the row does not open any more."""
        ring = self._rings.ring
        try:
            return _positions(row, ring)
        except (SealError, InvalidEmailError):
            if self._rings.refresh():
                return self._positions(row)
            _log.error("recipients_unreadable", source=self._source.name, email_id=str(row["id"]))
            return {}

    def _report(self, ends: Mapping[UUID, RowEnd], ended: Mapping[UUID, Sequence[Ended]]) -> None:
        now = self._clock()
        for id_, end in ends.items():
            EMAIL_ENDED.labels(end.status, end.reason or "").inc()
            last = max(each.at for each in ended[id_])
            EMAIL_WRITE_BACK.labels(self._source.name).observe(max(0.0, (now - last).total_seconds()))


def _positions(row: Any, ring: KeyRing) -> Mapping[bytes, int]:
    plain = row["recipients"]
    if row["sealed"]:
        plain = open_sealed(ring, Purpose.OUTBOX, row["id"].bytes + b"recipients", plain)
    recipients = recipients_from_json(plain)
    return {
        target_key(ring, "EMAIL", recipient.mailbox.address.canonical): position
        for position, recipient in enumerate(recipients)
    }


def _ended(record: Any) -> Ended:
    return Ended(
        target_key=record["target_key"],
        status=DeliveryStatus(record["status"]),
        reason=None if record["reason"] is None else Reason(record["reason"]),
        attempt=record["attempt"],
        provider=record["provider"],
        provider_message_id=record["provider_message_id"],
        detail=record["last_error"],
        at=record["updated_at"],
    )
