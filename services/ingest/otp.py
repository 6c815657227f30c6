"""One-time passwords: what is checked, rendered, sealed and stored at acceptance, and which code supersedes which."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import orjson

from services.ingest import problem
from services.ingest.caller import Caller
from services.ingest.model import OtpRequest
from services.ingest.row import Message, kept_until, traced
from shared.content.problem import RenderError
from shared.content.render import Renderer
from shared.core.address import InvalidAddressError, parse_phone, target_key
from shared.core.catalogue import Catalogue
from shared.core.deduplication import request_fingerprint
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.sealing import KeyRing, Purpose, keyed_hash, seal
from shared.web.problem import Problem
from shared.wire.channel import OTP_LANE, MessageClass
from shared.wire.message import DeliveryHint, encode

OTP_TYPE: Final = "OTP"
CHANNEL: Final = "SMS"
DIRECT_AFTER: Final = timedelta(seconds=1)
"""semantics.md section 1: codes still PENDING one second after acceptance are dispatched straight from their row."""

CodeKey = tuple[bytes, str]
"""Phone key and purpose: what has one current code."""


@dataclass(frozen=True, slots=True)
class RenderedOtp:
    """A checked request with the text that will be sent. repr shows neither phone nor code."""

    request: OtpRequest
    phone: str
    text: str
    locale: str
    template_version: int

    def __repr__(self) -> str:
        return f"RenderedOtp({self.request.request_id!r})"


@dataclass(frozen=True, slots=True)
class OtpRow:
    """One accepted code, ready to be stored; newer codes have larger ids."""

    id: UUID
    application_id: int
    request_id: str
    fingerprint: bytes
    kept_until: datetime
    external_id: str | None
    mode: str
    locale: str
    expires_at: datetime
    api_key_id: UUID
    traceparent: str | None
    created_at: datetime
    phone_key: bytes
    purpose: str
    target_key: bytes
    address_sealed: bytes
    content_sealed: bytes
    template_version: int
    message: Message
    log_id: UUID

    @property
    def dedup_key(self) -> tuple[int, str, str]:
        return self.application_id, self.request_id, OTP_TYPE

    @property
    def code_key(self) -> CodeKey:
        return self.phone_key, self.purpose


@dataclass(frozen=True, slots=True)
class Supersession:
    """What a group of codes means for those before it.

    current: the newest of the group per key, where it is newer than what is there. superseded: ids stored earlier
    that a newer one replaces. overtaken: ids of the group itself that may not go out.
    """

    current: Mapping[CodeKey, OtpRow]
    superseded: tuple[UUID, ...]
    overtaken: frozenset[UUID]


def supersede(rows: Sequence[OtpRow], stored: Mapping[CodeKey, UUID]) -> Supersession:
    """The newest code per phone and purpose goes out, whatever the order in which they reach the database.

    stored: the current code per key as locked in the database, which may be one of the rows.
    """
    newest: dict[CodeKey, OtpRow] = {}
    for row in rows:
        if row.code_key not in newest or row.id > newest[row.code_key].id:
            newest[row.code_key] = row
    current = {key: row for key, row in newest.items() if key not in stored or row.id >= stored[key]}
    own = {row.id for row in rows}
    return Supersession(
        current=current,
        superseded=tuple(sorted(stored[key] for key in current if key in stored and stored[key] not in own)),
        overtaken=frozenset(row.id for row in rows if current.get(row.code_key) is not row),
    )


def render_otp(
    request: OtpRequest, catalogue: Catalogue, renderer: Renderer, *, locale: str | None, default_locale: str
) -> RenderedOtp | Problem:
    """Check the phone and render the text; the template may use code, expiresInSeconds and expiresInMinutes."""
    try:
        phone = parse_phone(request.phone)
    except InvalidAddressError as error:
        return problem.INVALID_ADDRESS(f"phone is {error}.", "phone")
    template = catalogue.template(OTP_TYPE, CHANNEL, locale, default_locale)
    if catalogue.type(OTP_TYPE) is None or template is None:
        return problem.NOT_CONFIGURED(
            f"There is no type {OTP_TYPE} with a template for {CHANNEL}. Push one with `ulak templates push`."
        )
    params = {
        "code": request.code,
        "expiresInSeconds": request.expires_in_seconds,
        "expiresInMinutes": math.ceil(request.expires_in_seconds / 60),
    }
    try:
        content = renderer.render(template, params)
    except RenderError as error:
        return problem.NOT_CONFIGURED(
            f"The {CHANNEL} template of {OTP_TYPE} in {template.locale} cannot be rendered ({error}). "
            f"It may use {', '.join(params)}: correct it and push it again."
        )
    return RenderedOtp(request, phone, content["text"], template.locale, template.version)


def compose_otp(
    rendered: RenderedOtp,
    caller: Caller,
    ring: KeyRing,
    notification_id: UUID,
    log_id: UUID,
    now: datetime,
    traceparent: str | None,
) -> OtpRow:
    """The rows of one code. Draws nonces for what it seals; otherwise the same for the same arguments."""
    request = rendered.request
    key = target_key(ring, CHANNEL, rendered.phone)
    expires_at = now + timedelta(seconds=request.expires_in_seconds)
    value, headers = encode(DeliveryHint(notification_id, CHANNEL, key, 0, MessageClass.CRITICAL))
    content = orjson.dumps({"text": rendered.text})
    return OtpRow(
        id=notification_id,
        application_id=caller.application_id,
        request_id=request.request_id,
        fingerprint=otp_fingerprint(ring, request, rendered.phone),
        kept_until=kept_until(now, expires_at),
        external_id=None if request.user_id is None else str(request.user_id),
        mode=caller.mode,
        locale=rendered.locale,
        expires_at=expires_at,
        api_key_id=caller.key_id,
        traceparent=traceparent,
        created_at=now,
        phone_key=_phone_key(ring, caller, rendered.phone),
        purpose=request.purpose,
        target_key=key,
        address_sealed=seal(ring, Purpose.ADDRESS, key, rendered.phone.encode()),
        content_sealed=seal(ring, Purpose.OTP, notification_id.bytes + CHANNEL.encode(), content),
        template_version=rendered.template_version,
        message=Message(OTP_LANE.topic, value, traced(headers, traceparent)),
        log_id=log_id,
    )


def otp_fingerprint(ring: KeyRing, request: OtpRequest, phone: str) -> bytes:
    """Tells the same request from another; the code is part of it, which is why the hash is keyed."""
    params = request.model_dump(mode="json", exclude={"request_id", "phone"})
    return request_fingerprint(ring, recipient=phone, type_name=OTP_TYPE, params=params)


def first_of_each_request(rows: Sequence[OtpRow]) -> list[OtpRow]:
    """Of those with the same request id within one group, the one that came first."""
    firsts: dict[tuple[int, str, str], OtpRow] = {}
    for row in rows:
        firsts.setdefault(row.dedup_key, row)
    return list(firsts.values())


def born_status(row: OtpRow, supersession: Supersession) -> tuple[DeliveryStatus, Reason | None]:
    if row.id in supersession.overtaken:
        return DeliveryStatus.SKIPPED, Reason.SUPERSEDED
    return DeliveryStatus.PENDING, None


def _phone_key(ring: KeyRing, caller: Caller, phone: str) -> bytes:
    """Codes of two applications, or of a test key and a live one, do not supersede each other."""
    realm = "test" if caller.mode == "test" else "live"
    return keyed_hash(ring, f"otp-current:{caller.application_id}:{realm}", phone)
