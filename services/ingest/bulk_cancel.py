"""Cancelling all notifications that a filter means: page by page through their ids, each page in one transaction.

Killed between two pages, what was cancelled stays so, and the same call again finds it cancelled and goes on.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from services.ingest import problem
from services.ingest.admin.body import valid_body
from services.ingest.admin.change import actor_of
from services.ingest.bulk_cancel_model import BulkCancelAnswer, BulkCancelRequest, CancelFilter, Standing
from services.ingest.cancel import Canceller, Counts, count
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import BULK_CANCEL_PATH, Call
from shared.core.identifier import API_KEY, NOTIFICATION, InvalidIdError, lowest_id_at, parse_public_id, public_id
from shared.core.lifecycle import DeliveryStatus, NotificationState
from shared.postgres.audit_log import record
from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.problem import RefusedError
from shared.web.response import json_response

_PAGE: Final = 1000
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CALL_SEC: Final = 10.0
"""A call answers after about so long, with a cursor where there is more: no proxy's patience decides what was done."""


@dataclass(frozen=True, slots=True)
class Found:
    """One notification as it stood: its state, and of its deliveries status and reason."""

    state: NotificationState
    deliveries: list[tuple[DeliveryStatus, str | None]]

    @property
    def counts(self) -> Counts:
        return count(self.state, [status for status, _ in self.deliveries])

    @property
    def standing(self) -> Iterable[tuple[str, str | None]]:
        undecided = self.state in {NotificationState.ACCEPTED, NotificationState.DEFERRED}
        return [(self.state, None)] if undecided else self.deliveries


class Tally:
    """What a call has looked at so far."""

    def __init__(self) -> None:
        self._notifications = 0
        self._counts: Counter[str] = Counter()
        self._standing: Counter[tuple[str, str | None]] = Counter()

    def add(self, found: Iterable[Found]) -> None:
        for each in found:
            counts = each.counts
            self._notifications += 1
            self._counts["cancelled"] += counts.cancelled
            self._counts["in_flight"] += counts.in_flight
            self._counts["already_out"] += counts.already_out
            self._standing.update((str(state), reason) for state, reason in each.standing)

    def answer(self, *, dry_run: bool, cursor: str | None) -> BulkCancelAnswer:
        ordered = sorted(self._standing.items(), key=lambda entry: (entry[0][0], entry[0][1] or ""))
        return BulkCancelAnswer(
            dry_run=dry_run,
            notifications=self._notifications,
            cancelled=self._counts["cancelled"],
            in_flight=self._counts["in_flight"],
            already_out=self._counts["already_out"],
            standing=[Standing(state=state, reason=reason, count=number) for (state, reason), number in ordered],
            cursor=cursor,
        )


class BulkCanceller:
    """clock gives the present moment, aware; elapsed seconds that never go back. page: ids looked at a transaction."""

    def __init__(
        self,
        pool: Pool,
        canceller: Canceller,
        *,
        clock: Callable[[], datetime],
        elapsed: Callable[[], float] = time.monotonic,
        page: int = _PAGE,
    ) -> None:
        self._pool = pool
        self._canceller = canceller
        self._clock = clock
        self._elapsed = elapsed
        self._page = page
        self._queries = load_queries("ingest")

    async def run(self, request: BulkCancelRequest, call: Call) -> BulkCancelAnswer:
        """Cancel, or with a dry run only count. RefusedError for what the filter names and cannot be.

        A real one is in the audit log before it begins and when it ends; that only the first line is there says that
        it was broken off.
        """
        wanted = request.filter
        if wanted.template is not None and wanted.type is None:
            raise RefusedError(problem.INVALID_REQUEST("Name the template's type as well.", "filter.type"))
        behind = _lowest(wanted.since) if request.cursor is None else _place(request.cursor)
        before = _lowest(min(wanted.until or self._clock(), self._clock()))
        meant = _arguments(wanted, call)
        tally = Tally()
        if request.dry_run:
            left = await self._pages(behind, before, meant, lambda ids: self._standing(ids, tally))
        else:
            await self._audit(call, "bulk_cancel_begun", wanted, {})
            left = await self._pages(behind, before, meant, lambda ids: self._cancel(ids, call, tally))
        answer = tally.answer(dry_run=request.dry_run, cursor=None if left is None else public_id(NOTIFICATION, left))
        if not request.dry_run:
            await self._audit(call, "bulk_cancelled", wanted, answer.model_dump(mode="json", exclude={"dry_run"}))
        return answer

    async def _pages(
        self, behind: UUID, before: UUID, meant: Sequence[Any], work: Callable[[Sequence[UUID]], Awaitable[None]]
    ) -> UUID | None:
        """Work on what is meant between two ids, as far as the time goes; behind which id there may be more."""
        began = self._elapsed()
        while True:
            with translated():
                page = await self._pool.fetchrow(self._queries["cancel_page"], behind, before, self._page, *meant)
            assert page is not None  # a SELECT of scalars
            if page["meant"]:
                await work(page["meant"])
            if page["seen"] < self._page:
                return None
            behind = page["last"]
            if self._elapsed() - began >= _CALL_SEC:
                return behind

    async def _standing(self, ids: Sequence[UUID], tally: Tally) -> None:
        with translated():
            rows = await self._pool.fetch(self._queries["standing"], ids, ids[0], ids[-1])
        by_id: dict[UUID, Found] = {}
        for row in rows:
            found = by_id.setdefault(row["id"], Found(NotificationState(row["state"]), []))
            if row["status"] is not None:
                found.deliveries.append((DeliveryStatus(row["status"]), row["reason"]))
        tally.add(by_id.values())

    async def _cancel(self, ids: Sequence[UUID], call: Call, tally: Tally) -> None:
        locked = await self._canceller.cancel_all(ids, call.caller.reads_application)
        tally.add(
            Found(each.state, [(delivery.status, delivery.reason) for delivery in each.deliveries])
            for each in locked
            if each.state is not NotificationState.CANCELLED  # by another call meanwhile
        )

    async def _audit(self, call: Call, action: str, wanted: CancelFilter, counts: Mapping[str, Any]) -> None:
        detail = {"filter": wanted.model_dump(mode="json", by_alias=True, exclude_none=True), **counts}
        with translated():
            async with self._pool.acquire() as connection:
                await record(connection, actor_of(call), action, "notification", wanted.type or "*", detail)


def bulk_cancel_surface(bulk: BulkCanceller) -> Surface:
    """The call."""
    router = APIRouter(tags=["notifications"])

    @router.post(
        BULK_CANCEL_PATH,
        operation_id="cancelNotifications",
        summary="Stop all that a filter means; a dry run unless it says otherwise",
        responses=responses({200: BulkCancelAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(BulkCancelRequest),
    )
    async def cancel(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            found = await bulk.run(valid_body(BulkCancelRequest, call), call)
            return json_response(found.model_dump(by_alias=True, exclude_none=True))

        return await guarded(answer)(call_of(request))

    return Surface(router, {})


def _arguments(wanted: CancelFilter, call: Call) -> Sequence[Any]:
    """Of `cancel_page`, from the application on."""
    try:
        key = None if wanted.api_key_id is None else parse_public_id(API_KEY, wanted.api_key_id)
    except InvalidIdError as error:
        raise RefusedError(problem.INVALID_ID(f"{error}.", "filter.apiKeyId")) from error
    template = wanted.template
    version = (None, None, None) if template is None else (template.channel, template.locale, template.version)
    return (call.caller.reads_application, wanted.type, key, *version)


def _lowest(moment: datetime) -> UUID:
    """No id of the moment or later is below it."""
    return lowest_id_at(max(moment, _BEGINNING))


def _place(cursor: str) -> UUID:
    try:
        return parse_public_id(NOTIFICATION, cursor)
    except InvalidIdError as error:
        raise RefusedError(
            problem.INVALID_REQUEST("This is no cursor of ours: begin without one.", "cursor")
        ) from error
