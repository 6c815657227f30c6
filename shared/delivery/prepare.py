"""Opening a row: address and content in the clear, only in memory, only for the send. Pure but for the ring given."""

from dataclasses import dataclass
from typing import Final

import orjson

from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.ports import Prepared
from shared.core.sealing import KeyRing, Purpose, SealError, UnknownKeyError, open_sealed
from shared.delivery.row import DeliveryRow

_PURPOSE: Final = {purpose.value: purpose for purpose in Purpose}


@dataclass(frozen=True, slots=True)
class Unprepared:
    """Cannot be sent. status PENDING: not with this ring, look again later; else the row settles so."""

    status: DeliveryStatus
    reason: Reason
    detail: str


def prepare(row: DeliveryRow, ring: KeyRing) -> Prepared | Unprepared:
    """The message of one row, for its next attempt.

    A key the ring does not know may come with a rotation under way, so that row waits; only a key recorded as lost, or
    a value that does not open, is final (data.md, Sealing). A code that was cleared meanwhile is superseded.
    """
    if row.content_sealed is None:
        if row.content_purpose == Purpose.OTP:
            return Unprepared(DeliveryStatus.SKIPPED, Reason.SUPERSEDED, "the code was cleared")
        return Unprepared(DeliveryStatus.FAILED, Reason.RENDER, "no content is stored")
    address = open_address(row, ring)
    if isinstance(address, Unprepared):
        return address
    content = _open_content(row, row.content_sealed, ring)
    if isinstance(content, Unprepared):
        return content
    return Prepared(
        key=row.key,
        attempt=row.attempt + 1,
        address=address,
        content=content,
        message_class=row.message_class,
        expires_at=row.expires_at,
        platform=row.platform,
        app_id=row.app_id,
        collapse_key=row.collapse_key,
        campaign_id=row.campaign_id,
        marketing=row.marketing,
    )


def open_address(row: DeliveryRow, ring: KeyRing) -> str | Unprepared:
    """Where one row goes."""
    if row.address_sealed is None:
        return Unprepared(DeliveryStatus.FAILED, Reason.NO_TARGET, "no address is stored")
    plain = opened(ring, Purpose.ADDRESS, row.key.target_key, row.address_sealed)
    return plain if isinstance(plain, Unprepared) else plain.decode()


def _open_content(row: DeliveryRow, sealed: bytes, ring: KeyRing) -> dict[str, str] | Unprepared:
    purpose = _PURPOSE.get(row.content_purpose or "")
    if purpose is None:
        return Unprepared(DeliveryStatus.FAILED, Reason.UNSEALABLE, "sealed for a purpose that this release lacks")
    plain = opened(ring, purpose, content_row(row), sealed)
    if isinstance(plain, Unprepared):
        return plain
    try:
        content: dict[str, str] = orjson.loads(plain)
    except orjson.JSONDecodeError:
        return Unprepared(DeliveryStatus.FAILED, Reason.UNSEALABLE, "what was sealed is not JSON")
    return content


def opened(ring: KeyRing, purpose: Purpose, row: bytes, sealed: bytes) -> bytes | Unprepared:
    """What was sealed, or PENDING for want of its key, or FAILED(unsealable)."""
    try:
        return open_sealed(ring, purpose, row, sealed)
    except UnknownKeyError as error:
        return Unprepared(DeliveryStatus.PENDING, Reason.UNSEALABLE, str(error))
    except SealError as error:
        return Unprepared(DeliveryStatus.FAILED, Reason.UNSEALABLE, f"{type(error).__name__}")


def content_row(row: DeliveryRow) -> bytes:
    """The row identity that a notification's content of one channel is sealed with."""
    return row.key.notification_id.bytes + row.key.channel.encode()
