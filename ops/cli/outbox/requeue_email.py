"""Failed e-mails of one source on their way again: in the table, or in the ledger with the row following."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ops.cli.outbox.selection import Selection
from ops.cli.outbox.source import look
from ops.cli.outbox.tally import Tally
from ops.cli.outbox.verdict import FailedEmail, LedgerDelivery, Stay, Way, way_by_ledger, way_by_table
from shared.core.identifier import EMAIL, public_id
from shared.core.lifecycle import DeliveryStatus, NotificationState
from shared.delivery.requeue import owe_again, requeue_emails
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.postgres.source import OWN

_SQL: Final = load_queries("outbox_cli")
_PAGE: Final = 500
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = UUID(int=0)
_NOT_FAILED: Final = "it is under way, or everybody has it"


class EmailRequeue:
    """One source's. own: Ulak's database, on a connection of its own, also where the source is that database.

    Every page is a transaction of its own, and every change names the state it expects: two at once, or one that was
    stopped and is run again, requeue each row once. A row that fails again meanwhile is not requeued twice by one run.
    """

    def __init__(self, source: str, connection: Connection, own: Connection, *, now: datetime, yes: bool) -> None:
        self._source = source
        self._connection = connection
        self._own = own
        self._now = now
        self._yes = yes
        self._tally = Tally()

    async def run(self, selection: Selection) -> Tally:
        ttls = {
            row["type"]: timedelta(seconds=row["ttl_seconds"])
            for row in await look(self._own, load_queries("catalogue")["types"])
        }
        async for rows in self._pages(selection):
            ways = await self._ways(rows, ttls)
            going = {way: [row for row in rows if ways[row.id] is way] for way in Way}
            self._show(going[Way.TABLE] + going[Way.LEDGER])
            await self._by_table(going[Way.TABLE])
            await self._by_ledger(going[Way.LEDGER], going[Way.FOLLOW])
        if self._source == OWN and selection.ids:
            await self._without_row(selection.ids)
        return self._tally

    async def _pages(self, selection: Selection) -> AsyncIterator[Sequence[FailedEmail]]:
        if selection.ids:
            rows = await look(self._connection, _SQL["named_emails"], sorted(selection.ids))
            self._tally.found.update(row["id"] for row in rows)
            yield [_row(row) for row in rows]
            return
        after = (selection.since or _START, _FIRST)
        while rows := await look(
            self._connection, _SQL["failed_emails"], *after, selection.template, selection.error, _PAGE
        ):
            yield [_row(row) for row in rows]
            after = (rows[-1]["created_at"], rows[-1]["id"])

    async def _ways(self, rows: Sequence[FailedEmail], ttls: Mapping[str, timedelta]) -> Mapping[UUID, Way | Stay]:
        """By the rows' ids; who stays is counted with the reason."""
        entries = await self._entries([row.notification_id for row in rows if row.notification_id is not None])
        ways: dict[UUID, Way | Stay] = {}
        for row in rows:
            if row.notification_id is None or row.status != DeliveryStatus.FAILED:
                ways[row.id] = way_by_table(row, ttls, self._now)
            else:
                ways[row.id] = way_by_ledger(entries.get(row.notification_id, ()), self._now)
            self._refuse(row.id, ways[row.id])
        return ways

    async def _entries(self, notification_ids: Sequence[UUID]) -> Mapping[UUID, Sequence[LedgerDelivery]]:
        """What the ledger has of messages."""
        entries: defaultdict[UUID, list[LedgerDelivery]] = defaultdict(list)
        if notification_ids:
            ids = sorted(notification_ids)
            for row in await look(self._own, _SQL["ledger_deliveries"], ids, ids[0], ids[-1]):
                entries[row["notification_id"]].append(_delivery(row))
        return entries

    async def _by_table(self, rows: Sequence[FailedEmail]) -> None:
        done = len(rows)
        if rows and self._yes:
            async with self._connection.transaction():
                done = len(await self._connection.fetch(_SQL["requeue_emails"], [row.id for row in rows]))
        self._tally.requeued += done
        self._tally.missed += len(rows) - done

    async def _by_ledger(self, again: Sequence[FailedEmail], behind: Sequence[FailedEmail]) -> None:
        """The rows first and committed last, as `requeue_emails` asks for: killed in between, they are FAILED and their
        mail goes; then the next run finds them to follow.
        """
        rows = [*again, *behind]
        requeued, followed = len(again), len(behind)
        if rows and self._yes:
            async with self._connection.transaction():
                locked = await self._connection.fetch(_SQL["lock_ledger_emails"], [row.id for row in rows])
                ours = {row["notification_id"] for row in locked}
                ids = ours & {row.notification_id for row in again}
                told = ours & {row.notification_id for row in behind}
                async with self._own.transaction():
                    sent = (await requeue_emails(self._own, ids, now=self._now)).notification_ids
                    await owe_again(self._own, told)
                changed = await self._connection.fetch(_SQL["follow_ledger"], [row.id for row in rows], [*sent, *told])
            requeued = sum(row["notification_id"] in sent for row in changed)
            followed = len(changed) - requeued
        self._tally.requeued += requeued
        self._tally.followed += followed
        self._tally.missed += len(rows) - requeued - followed

    async def _without_row(self, ids: Collection[UUID]) -> None:
        """Those of the named that came by `POST /emails` of model B: the ledger has them, and no table."""
        links = await look(self._own, _SQL["unlinked_emails"], sorted(ids))
        entries = await self._entries([link["notification_id"] for link in links])
        going: list[UUID] = []
        for link in links:
            self._tally.found.add(link["source_id"])
            way = way_by_ledger(entries.get(link["notification_id"], ()), self._now)
            if way is Way.LEDGER:
                going.append(link["notification_id"])
                self._tally.show(public_id(EMAIL, link["source_id"]), "by the API", None)
            else:
                self._refuse(link["source_id"], Stay(_NOT_FAILED) if way is Way.FOLLOW else way)
        done = len(going)
        if going and self._yes:
            async with self._own.transaction():
                done = len((await requeue_emails(self._own, going, now=self._now)).notification_ids)
        self._tally.requeued += done
        self._tally.missed += len(going) - done

    def _show(self, rows: Sequence[FailedEmail]) -> None:
        for row in rows:
            self._tally.show(public_id(EMAIL, row.id), row.template, row.error)

    def _refuse(self, id_: UUID, way: Way | Stay) -> None:
        if isinstance(way, Stay):
            self._tally.refuse(way.why, public_id(EMAIL, id_))


def _row(row: Any) -> FailedEmail:
    return FailedEmail(
        id=row["id"],
        status=row["status"],
        template=row["template"],
        type_name=row["type"] or row["template"],
        error=row["error_message"],
        notification_id=row["notification_id"],
        has_content=row["has_content"],
        expires_at=row["expires_at"],
        created_at=row["created_at"],
    )


def _delivery(row: Any) -> LedgerDelivery:
    return LedgerDelivery(
        status=DeliveryStatus(row["status"]),
        reason=row["reason"],
        expires_at=row["expires_at"],
        state=NotificationState(row["state"]),
        has_content=row["has_content"],
    )
