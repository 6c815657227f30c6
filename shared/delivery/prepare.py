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
    if row.address_sealed is None:
        return Unprepared(DeliveryStatus.FAILED, Reason.NO_TARGET, "no address is stored")
    try:
        address = open_sealed(ring, Purpose.ADDRESS, row.key.target_key, row.address_sealed).decode()
        purpose = _PURPOSE[row.content_purpose or ""]
        content = orjson.loads(open_sealed(ring, purpose, content_row(row), row.content_sealed))
    except UnknownKeyError as error:
        return Unprepared(DeliveryStatus.PENDING, Reason.UNSEALABLE, str(error))
    except (SealError, ValueError, KeyError) as error:
        return Unprepared(DeliveryStatus.FAILED, Reason.UNSEALABLE, f"{type(error).__name__}")
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
    )


def content_row(row: DeliveryRow) -> bytes:
    """The row identity that a notification's content of one channel is sealed with."""
    return row.key.notification_id.bytes + row.key.channel.encode()
