"""Accepting one-time passwords: read, check, render, seal, commit with others, answer."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from services.ingest.caller import Caller
from services.ingest.group_commit import BadRowError, GroupCommit, OverloadedError
from services.ingest.intake import Accepted, CatalogueSource, answered, log_not_stored, stored_problem
from services.ingest.model import OtpRequest
from services.ingest.otp import OtpRow, compose_otp, render_otp
from services.ingest.otp_store import OtpStore
from services.ingest.problem import REQUEST_ID_EXPIRED
from services.ingest.row import Acceptance
from shared.content.render import Renderer
from shared.core.identifier import NOTIFICATION, new_id, public_id
from shared.postgres.errors import PostgresError
from shared.runtime.keyring import RingSource
from shared.web.invalid import invalid_fields
from shared.web.problem import Problem


class OtpIntake:
    """What stands behind `/internal/v1/otp-messages`. Logs neither phone nor code, and keeps neither in the clear."""

    def __init__(
        self,
        *,
        catalogue: CatalogueSource,
        renderer: Renderer,
        rings: RingSource,
        store: OtpStore,
        commits: GroupCommit[OtpRow, Acceptance],
        default_locale: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._catalogue = catalogue
        self._renderer = renderer
        self._rings = rings
        self._store = store
        self._commits = commits
        self._default_locale = default_locale
        self._clock = clock

    async def accept(self, item: object, caller: Caller, traceparent: str | None) -> Accepted | Problem:
        """One code, parsed from JSON; the answer is durable."""
        try:
            request = OtpRequest.model_validate(item)
        except ValidationError as error:
            return invalid_fields(error)
        catalogue = await self._catalogue.get()
        rendered = render_otp(
            request, catalogue, self._renderer, locale=await self._locale(request), default_locale=self._default_locale
        )
        if isinstance(rendered, Problem):
            return rendered
        row = compose_otp(rendered, caller, self._rings.ring, new_id(), new_id(), self._clock(), traceparent)
        try:
            acceptance = await self._commits.submit(row)
        except (OverloadedError, BadRowError, PostgresError) as error:
            log_not_stored(error, 1)
            return stored_problem(error)
        return answered(acceptance, None, key_name="requestId")

    async def state(self, request_id: str, caller: Caller) -> dict[str, Any] | Problem:
        """How far the code of a request is, without the code."""
        found = await self._store.state(caller.application_id, request_id)
        if found is None:
            return REQUEST_ID_EXPIRED(
                "This application has sent no such requestId, or it is older than what is kept (7 days)."
            )
        body = {
            "notificationId": public_id(NOTIFICATION, found.notification_id),
            "requestId": found.request_id,
            "status": found.status,
            "reason": found.reason,
            "attempts": found.attempts,
            "createdAt": found.created_at,
            "expiresAt": found.expires_at,
        }
        return {name: value for name, value in body.items() if value is not None}

    async def _locale(self, request: OtpRequest) -> str | None:
        if request.locale is not None or request.user_id is None:
            return request.locale
        return await self._store.locale(str(request.user_id))
