"""Accepting e-mails: read, check, compose, commit with others, answer."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from pydantic import ValidationError

from services.ingest import problem
from services.ingest.caller import Caller
from services.ingest.email import (
    AdmittedEmail,
    admit_email,
    compose_email,
    marketing_refused,
    model_of,
    read_request,
    refused_problem,
)
from services.ingest.email_model import EmailBody, Model
from services.ingest.email_store import EmailAcceptance, TableAsk
from services.ingest.group_commit import BadRowError, GroupCommit, OverloadedError
from services.ingest.intake import log_not_stored, stored_problem
from services.ingest.model import ClampedPriority
from services.ingest.row import Standing
from shared.core.catalogue import Catalogue
from shared.core.email import EmailRequest
from shared.core.identifier import EMAIL, NOTIFICATION, new_id, public_id
from shared.ledger.ask import EmailAsk, Refused
from shared.postgres.errors import PostgresError
from shared.runtime.keyring import RingSource
from shared.runtime.metrics import DUPLICATES
from shared.web.invalid import invalid_fields
from shared.web.problem import Problem
from shared.wire.channel import Category

_REREAD_SEC: Final = 1.0
"""How old the catalogue may be before a request is refused by it: what was pushed a moment ago is found."""


class CatalogueSource(Protocol):
    async def get(self, *, max_age_sec: float | None = None) -> Catalogue: ...


class LocaleSource(Protocol):
    async def locale(self, external_id: str) -> str | None:
        """What is known of the language this recipient reads."""


class ConsentSource(Protocol):
    async def stand(self, request: EmailRequest) -> bool:
        """Whether anybody whom the request goes to has consented to marketing by e-mail."""


@dataclass(frozen=True, slots=True)
class AcceptedEmail:
    """202 for a new e-mail, 200 for one that was there with the same body. notification_id: of model B."""

    status: int
    email_id: str
    notification_id: str | None
    clamped: ClampedPriority | None = None

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"emailId": self.email_id}
        if self.notification_id is not None:
            body["notificationId"] = self.notification_id
        if self.clamped is not None:
            body["priority"] = self.clamped.model_dump(by_alias=True)
        return body


class EmailIntake:
    """What stands behind `POST /internal/v1/emails`. Logs neither addresses nor parameters."""

    def __init__(
        self,
        *,
        catalogue: CatalogueSource,
        locales: LocaleSource,
        consents: ConsentSource,
        rings: RingSource,
        ledger: GroupCommit[EmailAsk, EmailAcceptance | Refused],
        table: GroupCommit[TableAsk, EmailAcceptance],
        default_model: Model,
        default_locale: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._catalogue = catalogue
        self._locales = locales
        self._consents = consents
        self._rings = rings
        self._ledger = ledger
        self._table = table
        self._default_model = default_model
        self._default_locale = default_locale
        self._clock = clock

    async def accept(self, item: object, caller: Caller, traceparent: str | None) -> AcceptedEmail | Problem:
        """One e-mail, parsed from JSON; the answer is durable."""
        admitted = await self._check(item)
        if isinstance(admitted, Problem):
            return admitted
        ask = compose_email(admitted, caller, self._rings.ring, new_id(), self._clock(), traceparent)
        try:
            if model_of(admitted.body, caller, self._default_model) == "A":
                if admitted.type.category is Category.MARKETING and not await self._consents.stand(admitted.request):
                    return marketing_refused(admitted.request)
                acceptance = await self._table.submit(TableAsk(ask, admitted.message_class))
            else:
                answer = await self._ledger.submit(ask)
                if isinstance(answer, Refused):
                    return refused_problem(answer, admitted.request)
                acceptance = answer
        except (OverloadedError, BadRowError, PostgresError) as error:
            log_not_stored(error, 1)
            return stored_problem(error)
        return _answered(acceptance, admitted.clamped)

    async def _check(self, item: object) -> AdmittedEmail | Problem:
        try:
            body = EmailBody.model_validate(item)
        except ValidationError as error:
            return invalid_fields(error)
        request = read_request(body)
        if isinstance(request, Problem):
            return request
        user_locale = None
        if request.locale is None and request.user_id is not None:
            user_locale = await self._locales.locale(request.user_id)

        def admit(catalogue: Catalogue) -> AdmittedEmail | Problem:
            return admit_email(body, request, catalogue, user_locale=user_locale, default_locale=self._default_locale)

        catalogue = await self._catalogue.get()
        admitted = admit(catalogue)
        if isinstance(admitted, Problem):
            newer = await self._catalogue.get(max_age_sec=_REREAD_SEC)
            if newer is not catalogue:
                return admit(newer)
        return admitted


def _answered(acceptance: EmailAcceptance, clamped: ClampedPriority | None) -> AcceptedEmail | Problem:
    """What the holder of the key means for the caller: 202, 200, or 409."""
    email_id = public_id(EMAIL, acceptance.email_id)
    notification_id = public_id(NOTIFICATION, acceptance.email_id) if acceptance.in_ledger else None
    match acceptance.standing:
        case Standing.FIRST:
            return AcceptedEmail(202, email_id, notification_id, clamped)
        case Standing.REPEATED:
            DUPLICATES.labels("same").inc()
            return AcceptedEmail(200, email_id, notification_id)
        case Standing.CONFLICTING:
            DUPLICATES.labels("other").inc()
            return problem.OTHER_BODY(
                f"This idempotencyKey was accepted before as {email_id} with other recipients or other content. "
                "Send a new idempotencyKey for a new e-mail.",
                "idempotencyKey",
            )
