"""What an accepted request is as rows and as a message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final
from uuid import UUID

import orjson

from services.ingest.acceptance import Admitted, Profile
from services.ingest.caller import Caller
from shared.core.address import target_key
from shared.core.deduplication import mapping_key, request_fingerprint
from shared.core.lifecycle import NotificationState
from shared.core.sealing import KeyRing, Purpose, seal
from shared.kafka.record import Record
from shared.wire.message import HEADER_TRACEPARENT, RequestHint, encode
from shared.wire.topic import notification_requests

DEDUP_KEPT: Final = timedelta(days=7)
DEDUP_AFTER_EXPIRY: Final = timedelta(days=1)
"""data.md, Dedup: a row lives until the later of 7 days and expiry + 1 day."""


class Standing(StrEnum):
    """How a request relates to what holds its key."""

    FIRST = "first"
    REPEATED = "repeated"
    CONFLICTING = "conflicting"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The record that holds the key, and whether this request made it, repeats it, or contradicts it."""

    notification_id: UUID
    standing: Standing


@lru_cache(maxsize=64)
def _headers_json(headers: tuple[tuple[str, bytes], ...]) -> str:
    return orjson.dumps({name: value.decode() for name, value in headers}).decode()


@dataclass(frozen=True, slots=True)
class Message:
    """The hint as the outbox row and the producer both take it."""

    topic: str
    payload: bytes
    headers: tuple[tuple[str, bytes], ...]

    @property
    def headers_json(self) -> str:
        """The headers as the outbox row holds them: name -> text."""
        return _headers_json(self.headers)

    def record(self, key: bytes) -> Record:
        return Record(self.topic, key, self.payload, self.headers)


@dataclass(frozen=True, slots=True)
class SealedProfile:
    """The columns of `recipients` that a request may bring; None leaves what is there."""

    email_key: bytes | None = None
    email_sealed: bytes | None = None
    phone_key: bytes | None = None
    phone_sealed: bytes | None = None
    locale: str | None = None
    time_zone: str | None = None

    def over(self, earlier: "SealedProfile") -> "SealedProfile":
        """What the later profile says, else what the earlier one said."""
        return SealedProfile(
            self.email_key or earlier.email_key,
            self.email_sealed or earlier.email_sealed,
            self.phone_key or earlier.phone_key,
            self.phone_sealed or earlier.phone_sealed,
            self.locale or earlier.locale,
            self.time_zone or earlier.time_zone,
        )


@dataclass(frozen=True, slots=True)
class NotificationRow:
    """One accepted request, ready to be stored; the dedup key is (application_id, event_id, mapping)."""

    id: UUID
    application_id: int
    event_id: str
    mapping: str
    fingerprint: bytes
    kept_until: datetime
    external_id: str
    type: str
    message_class: int
    mode: str
    state: NotificationState
    params_sealed: bytes
    channels: str | None
    locale: str | None
    business_key: str | None
    collapse_key: str | None
    event_time: datetime | None
    send_at: datetime | None
    expires_at: datetime
    api_key_id: UUID
    traceparent: str | None
    created_at: datetime
    profile: SealedProfile | None
    message: Message

    @property
    def dedup_key(self) -> tuple[int, str, str]:
        return self.application_id, self.event_id, self.mapping


def compose(
    admitted: Admitted, caller: Caller, ring: KeyRing, notification_id: UUID, traceparent: str | None
) -> NotificationRow:
    """The rows of one admitted request. Draws nonces for what it seals; otherwise the same for the same arguments."""
    request = admitted.request
    return NotificationRow(
        id=notification_id,
        application_id=caller.application_id,
        event_id=request.event_id,
        mapping=mapping_key(request.type),
        fingerprint=request_fingerprint(
            ring, recipient=str(request.user_id), type_name=request.type, params=request.params
        ),
        kept_until=kept_until(admitted.at, admitted.expires_at),
        external_id=str(request.user_id),
        type=request.type,
        message_class=admitted.message_class,
        mode=caller.mode,
        state=NotificationState.ACCEPTED if admitted.send_at is None else NotificationState.DEFERRED,
        params_sealed=seal(ring, Purpose.PARAMS, notification_id.bytes, admitted.params),
        channels=None if admitted.channels is None else ",".join(admitted.channels),
        locale=None if admitted.profile is None else admitted.profile.locale,
        business_key=request.business_key,
        collapse_key=request.collapse_key,
        event_time=request.event_time,
        send_at=admitted.send_at,
        expires_at=admitted.expires_at,
        api_key_id=caller.key_id,
        traceparent=traceparent,
        created_at=admitted.at,
        profile=None if admitted.profile is None else sealed_profile(ring, admitted.profile),
        message=request_message(notification_id, admitted, traceparent),
    )


def kept_until(now: datetime, expires_at: datetime) -> datetime:
    """How long a dedup row answers."""
    return max(now + DEDUP_KEPT, expires_at + DEDUP_AFTER_EXPIRY)


def request_message(notification_id: UUID, admitted: Admitted, traceparent: str | None) -> Message:
    value, headers = encode(RequestHint(notification_id))
    return Message(notification_requests(admitted.message_class), value, traced(headers, traceparent))


def traced(headers: Iterable[tuple[str, bytes]], traceparent: str | None) -> tuple[tuple[str, bytes], ...]:
    """The headers, with the caller's trace where it sent one."""
    return (*headers, *(() if traceparent is None else ((HEADER_TRACEPARENT, traceparent.encode()),)))


def sealed_profile(ring: KeyRing, profile: Profile) -> SealedProfile:
    """Addresses sealed under their own keys, so that the same bytes can be copied to deliveries."""
    email_key = None if profile.email is None else target_key(ring, "EMAIL", profile.email.canonical)
    phone_key = None if profile.phone is None else target_key(ring, "SMS", profile.phone)
    return SealedProfile(
        email_key=email_key,
        email_sealed=None
        if profile.email is None or email_key is None
        else seal(ring, Purpose.ADDRESS, email_key, profile.email.text.encode()),
        phone_key=phone_key,
        phone_sealed=None
        if profile.phone is None or phone_key is None
        else seal(ring, Purpose.ADDRESS, phone_key, profile.phone.encode()),
        locale=profile.locale,
        time_zone=profile.time_zone,
    )


def merged_profiles(rows: Sequence[NotificationRow]) -> dict[str, SealedProfile]:
    """One profile per recipient of a group, the later request's word over the earlier's."""
    profiles: dict[str, SealedProfile] = {}
    for row in rows:
        earlier = profiles.get(row.external_id)
        if earlier is None:
            profiles[row.external_id] = row.profile or _NOTHING
        elif row.profile is not None:
            profiles[row.external_id] = row.profile.over(earlier)
    return profiles


_NOTHING: Final = SealedProfile()


def first_of_each_key(rows: Sequence[NotificationRow]) -> list[NotificationRow]:
    """The rows to insert: of those with the same key within one group, the one that came first."""
    firsts: dict[tuple[int, str, str], NotificationRow] = {}
    for row in rows:
        firsts.setdefault(row.dedup_key, row)
    return list(firsts.values())


def standing(*, own_id: UUID, own_fingerprint: bytes, holder: UUID, holder_fingerprint: bytes) -> Standing:
    """What the holder of the key makes of a request. The row itself is FIRST also when its own commit was told late."""
    if holder == own_id:
        return Standing.FIRST
    return Standing.REPEATED if holder_fingerprint == own_fingerprint else Standing.CONFLICTING
