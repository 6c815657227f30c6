"""Accepting notifications: read, check, compose, commit with others, answer."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from pydantic import ValidationError

from services.ingest import problem
from services.ingest.acceptance import (
    Admitted,
    Requirements,
    admit,
    missing_parameters,
    parameters_in_doubt,
)
from services.ingest.caller import Caller
from services.ingest.group_commit import BadRowError, GroupCommit, GroupError, OverloadedError
from services.ingest.model import ClampedPriority, NotificationRequest
from services.ingest.row import Acceptance, NotificationRow, Standing, compose
from services.ingest.store import NotificationStore
from shared.core.catalogue import Catalogue
from shared.core.identifier import NOTIFICATION, new_id, public_id
from shared.postgres.errors import PostgresError
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import DUPLICATES
from shared.web.invalid import invalid_fields
from shared.web.problem import Problem
from shared.wire.channel import Channels

_log = get_logger(__name__)

_YIELD_EVERY: Final = 50
"""Items of a batch checked before other connections get their turn: a few milliseconds."""


class CatalogueSource(Protocol):
    async def get(self) -> Catalogue: ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """202 for a new record, 200 for one that was there with the same body."""

    status: int
    notification_id: str
    clamped: ClampedPriority | None = None

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"notificationId": self.notification_id}
        if self.clamped is not None:
            body["priority"] = self.clamped.model_dump(by_alias=True)
        return body


class NotificationIntake:
    """What stands behind `POST /internal/v1/notifications` and its batch."""

    def __init__(
        self,
        *,
        catalogue: CatalogueSource,
        channels: Channels,
        rings: RingSource,
        store: NotificationStore,
        commits: GroupCommit[NotificationRow, Acceptance],
        default_locale: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._catalogue = catalogue
        self._channels = channels
        self._requirements: Requirements | None = None
        # Batches are checked one after the other, so that one is checked while another is being committed; taking
        # turns they would all be ready at the same moment, and the database idle until then.
        self._one_batch = asyncio.Lock()
        self._rings = rings
        self._store = store
        self._commits = commits
        self._default_locale = default_locale
        self._clock = clock

    async def check(self, item: object) -> tuple[Admitted, Catalogue] | Problem:
        """What `accept` would make of it, short of storing it; with the catalogue that it was checked against."""
        requirements = await self._current()
        checked = await self._check(item, requirements)
        return checked if isinstance(checked, Problem) else (checked, requirements.catalogue)

    async def accept(self, item: object, caller: Caller, traceparent: str | None) -> Accepted | Problem:
        """One request, parsed from JSON; the answer is durable."""
        checked = await self._check(item, await self._current())
        if isinstance(checked, Problem):
            return checked
        try:
            acceptance = await self._commits.submit(self._compose(checked, caller, traceparent))
        except (OverloadedError, BadRowError, PostgresError) as error:
            log_not_stored(error, 1)
            return stored_problem(error)
        return answered(acceptance, checked.clamped, key_name="eventId")

    async def accept_all(
        self, items: Sequence[object], caller: Caller, traceparent: str | None
    ) -> list[Accepted | Problem]:
        """A batch: every item stands for itself; answers in the order of the items."""
        answers: list[Accepted | Problem | None] = []
        admitted: list[tuple[int, Admitted, NotificationRow]] = []
        async with self._one_batch:
            requirements = await self._current()
            for index, item in enumerate(items):
                checked = await self._check(item, requirements)
                if isinstance(checked, Problem):
                    answers.append(checked)
                else:
                    answers.append(None)
                    admitted.append((index, checked, self._compose(checked, caller, traceparent)))
                if index % _YIELD_EVERY == _YIELD_EVERY - 1:
                    await asyncio.sleep(0)
        try:
            results = await self._commits.submit_all([row for _, _, row in admitted])
        except OverloadedError as error:
            results = [error] * len(admitted)
        failed = [result for result in results if isinstance(result, Exception)]
        if failed:
            log_not_stored(failed[0], len(failed))
        for (index, checked, _), result in zip(admitted, results, strict=True):
            if isinstance(result, Exception):
                answers[index] = stored_problem(result)
            else:
                answers[index] = answered(result, checked.clamped, key_name="eventId")
        return [answer for answer in answers if answer is not None]

    async def _current(self) -> Requirements:
        """The requirements of the catalogue of this moment."""
        catalogue = await self._catalogue.get()
        if self._requirements is None or self._requirements.catalogue is not catalogue:
            self._requirements = Requirements(catalogue, self._channels)
        return self._requirements

    async def _check(self, item: object, requirements: Requirements) -> Admitted | Problem:
        try:
            request = NotificationRequest.model_validate(item)
        except ValidationError as error:
            return invalid_fields(error)
        admitted = admit(request, requirements, self._clock())
        if isinstance(admitted, Problem) or not parameters_in_doubt(admitted, requirements):
            return admitted
        locale = None if admitted.profile is None else admitted.profile.locale
        if locale is None:
            locale = await self._store.locale(str(request.user_id))
        missing = missing_parameters(
            admitted, requirements.catalogue, locale=locale, default_locale=self._default_locale
        )
        return admitted if missing is None else missing

    def _compose(self, admitted: Admitted, caller: Caller, traceparent: str | None) -> NotificationRow:
        return compose(admitted, caller, self._rings.ring, new_id(), traceparent)


def answered(acceptance: Acceptance, clamped: ClampedPriority | None, *, key_name: str) -> Accepted | Problem:
    """What the holder of the key means for the caller: 202, 200, or 409."""
    public = public_id(NOTIFICATION, acceptance.notification_id)
    match acceptance.standing:
        case Standing.FIRST:
            return Accepted(202, public, clamped)
        case Standing.REPEATED:
            DUPLICATES.labels("same").inc()
            return Accepted(200, public)
        case Standing.CONFLICTING:
            DUPLICATES.labels("other").inc()
            return problem.OTHER_BODY(
                f"This {key_name} was accepted before as {public} with another recipient or other content. "
                f"Send a new {key_name} for a new message.",
                key_name,
            )


def log_not_stored(error: Exception, requests: int) -> None:
    """One line for all that failed together. Only our own errors' texts: another's may quote a row."""
    reason = str(error) if isinstance(error, GroupError | PostgresError) else ""
    _log.warning("requests_not_stored", requests=requests, error=type(error).__name__, reason=reason)


def stored_problem(error: Exception) -> Problem:
    """What a failed commit means for the caller; what is not expected is raised again."""
    match error:
        case BadRowError():
            return problem.ROW_REFUSED(
                "The database refused this item; nothing of it is stored. Report this to Ulak's team."
            )
        case OverloadedError() | PostgresError():
            return problem.unavailable()
        case _:
            raise error
