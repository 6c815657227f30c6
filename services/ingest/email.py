"""What an e-mail request must satisfy to be accepted: pure, one body in, one admission or one problem out."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import orjson

from services.ingest import problem
from services.ingest.acceptance import asked_class, clamp, listed
from services.ingest.caller import Caller
from services.ingest.email_model import EmailBody, Model
from services.ingest.model import ClampedPriority
from shared.core.catalogue import Catalogue, NotificationType
from shared.core.email import EmailRequest, InvalidEmailError, parse_attachments, parse_recipients
from shared.core.identifier import EMAIL, public_id
from shared.core.lifecycle import Reason
from shared.core.sealing import KeyRing
from shared.core.unsubscribe import PARAMETER, RESERVED
from shared.decision.facts import Mode
from shared.ledger.ask import NO_SOURCE, EmailAsk, Refused, email_fingerprint
from shared.web.problem import Problem
from shared.wire.channel import Category, MessageClass

CHANNEL: Final = "EMAIL"


@dataclass(frozen=True, slots=True)
class AdmittedEmail:
    """A request that may be stored. asked: the class that the caller named, None for none."""

    body: EmailBody
    request: EmailRequest
    type: NotificationType
    asked: MessageClass | None
    clamped: ClampedPriority | None

    @property
    def message_class(self) -> MessageClass:
        return self.type.message_class if self.asked is None else max(self.type.message_class, self.asked)


def read_request(body: EmailBody) -> EmailRequest | Problem:
    """The request as both models store it: addresses and attachments checked, parameters storable."""
    try:
        recipients = parse_recipients(body.to, body.cc, body.bcc)
    except InvalidEmailError as error:
        return problem.INVALID_ADDRESS(f"{error}.", error.path)
    try:
        given = [entry.model_dump(by_alias=True, exclude_none=True) for entry in body.attachments]
        attachments = parse_attachments(given)
    except InvalidEmailError as error:
        return problem.INVALID_ATTACHMENT(f"{error}.", error.path)
    if PARAMETER in body.parameters:
        return problem.INVALID_PARAMETERS(f"{RESERVED}.", f"parameters.{PARAMETER}")
    try:
        orjson.dumps(body.parameters)
    except orjson.JSONEncodeError as error:
        return problem.INVALID_PARAMETERS(
            f"parameters cannot be stored ({error}). Send large numbers as strings.", "parameters"
        )
    return EmailRequest(
        recipients=recipients,
        template=body.template,
        parameters=body.parameters,
        type=body.type,
        locale=body.locale,
        user_id=None if body.user_id is None else str(body.user_id),
        attachments=attachments,
    )


def admit_email(
    body: EmailBody, request: EmailRequest, catalogue: Catalogue, *, user_locale: str | None, default_locale: str
) -> AdmittedEmail | Problem:
    """Check type, template, parameters and priority; the first thing wrong is the answer.

    user_locale: what is known of the user whom the request names; the request's own goes before it.
    """
    kind = catalogue.type(request.type_name)
    if kind is None:
        return _unknown_type(request.type_name, "template" if body.type is None else "type")
    if kind.category is Category.MARKETING and len(request.recipients) > 1:
        return problem.MARKETING_TO_SEVERAL(
            f"{kind.name} is marketing, and each reader needs a way of their own to unsubscribe (RFC 8058): send a "
            "request for each recipient.",
            "to",
        )
    locale = request.locale or user_locale
    template = catalogue.template(request.template, CHANNEL, locale, default_locale)
    if template is None:
        return _no_template(request.template, locale, default_locale)
    missing = [name for name in sorted(template.parameters) if request.parameters.get(name) is None]
    if missing:
        return problem.PARAMETERS_MISSING(
            f"{request.template} for {CHANNEL} in {template.locale} needs {listed(missing)}. Send them in parameters.",
            *(f"parameters.{name}" for name in missing),
        )
    asked = asked_class(body.priority)
    if isinstance(asked, Problem):
        return asked
    return AdmittedEmail(body, request, kind, asked, clamp(body.priority, asked, kind.message_class))


def model_of(body: EmailBody, caller: Caller, default: Model) -> Model:
    """B for keys that are not live: only there a test is simulated and a team kept to its allow-list."""
    return "B" if caller.mode != Mode.LIVE else body.model or default


def compose_email(
    admitted: AdmittedEmail, caller: Caller, ring: KeyRing, email_id: UUID, now: datetime, traceparent: str | None
) -> EmailAsk:
    """What asks the ledger (B) or the table (A) for one e-mail. Without a key of the caller's its id is its key."""
    body, request = admitted.body, admitted.request
    life = None if body.expires_in_seconds is None else timedelta(seconds=body.expires_in_seconds)
    return EmailAsk(
        id=email_id,
        source=NO_SOURCE,
        source_id=email_id,
        application_id=caller.application_id,
        key=body.idempotency_key or public_id(EMAIL, email_id),
        fingerprint=email_fingerprint(ring, request),
        request=request,
        created_at=now,
        asked_class=admitted.asked,
        mode=Mode(caller.mode),
        expires_at=None if life is None else now + life,
        api_key_id=caller.key_id,
        traceparent=traceparent,
        owned_files=tuple(entry.storage_ref for entry in request.attachments),
    )


def refused_problem(refused: Refused, request: EmailRequest) -> Problem:
    """What the catalogue says meanwhile, though it said otherwise when the request was checked."""
    field = "template" if request.type is None else "type"
    match refused.reason:
        case Reason.UNKNOWN_TYPE:
            return _unknown_type(request.type_name, field)
        case Reason.NO_CONSENT:
            return marketing_refused(request)
        case Reason.NO_TEMPLATE:
            return _no_template(request.template, request.locale)
        case _:
            return problem.EXPIRED_ON_ARRIVAL(f"{refused.detail.capitalize()}.", "expiresInSeconds")


def _unknown_type(name: str, field: str) -> Problem:
    return problem.UNKNOWN_TYPE(
        f"There is no notification type {name!r}. Push it with `ulak templates push`, or correct the name.", field
    )


def marketing_refused(request: EmailRequest) -> Problem:
    """Marketing to whom nobody's consent stands."""
    return problem.MARKETING_REFUSED(
        f"{request.type_name} is marketing, and of no recipient a consent to it by e-mail stands. Record the consent "
        "with POST /internal/v1/consents where there is one, or send a type of another category.",
        "template" if request.type is None else "type",
    )


def _no_template(name: str, *locales: str | None) -> Problem:
    tried = ", ".join(dict.fromkeys(locale for locale in locales if locale))
    return problem.TEMPLATE_MISSING(
        f"{name} has no template for {CHANNEL}{f' in {tried}' if tried else ''}. Push one with `ulak templates push`.",
        "template",
    )
