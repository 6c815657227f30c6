"""Whether a failed e-mail can go again, and which way. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from shared.core.lifecycle import REPAIRABLE, DeliveryStatus, NotificationState

EXPIRED: Final = "its time to live is over: have its service enqueue it again, if it still matters"
CLEARED: Final = "nothing is left to send: its content went when it was refused for good"

_WAITING: Final = frozenset({DeliveryStatus.PENDING, DeliveryStatus.SENDING})
_REACHED: Final = frozenset({DeliveryStatus.SENT, DeliveryStatus.DELIVERED})


class Way(StrEnum):
    """TABLE: the row is PENDING again. LEDGER: its failed deliveries are. FOLLOW: nothing is sent, the row is told."""

    TABLE = "table"
    LEDGER = "ledger"
    FOLLOW = "follow"


@dataclass(frozen=True, slots=True)
class Stay:
    """Why it cannot go again: one sentence, the same for all of its kind."""

    why: str


@dataclass(frozen=True, slots=True)
class FailedEmail:
    """A row of email_messages that somebody wants to go again.

    notification_id: where its mail is, if the ledger took it in. has_content: whether its parameters are kept.
    """

    id: UUID
    status: str
    template: str
    type_name: str
    error: str | None
    notification_id: UUID | None
    has_content: bool
    expires_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class LedgerDelivery:
    """One recipient of a mail in the ledger; state and has_content are of the whole mail."""

    status: DeliveryStatus
    reason: str | None
    expires_at: datetime
    state: NotificationState
    has_content: bool

    @property
    def repairable(self) -> bool:
        return self.status is DeliveryStatus.FAILED and self.reason in REPAIRABLE


def way_by_table(row: FailedEmail, ttls: Mapping[str, timedelta], now: datetime) -> Way | Stay:
    """For a row that is not in the ledger. ttls: of the types that there are."""
    if row.status != DeliveryStatus.FAILED:
        return Stay(f"it is {row.status}, and only what FAILED goes again")
    if not row.has_content:
        return Stay(CLEARED)
    ttl = ttls.get(row.type_name)
    if ttl is None:
        return Stay(f"there is no notification type {row.type_name}: `ulak templates push` it first")
    expires_at = row.created_at + ttl if row.expires_at is None else row.expires_at
    return Stay(EXPIRED) if expires_at <= now else Way.TABLE


def way_by_ledger(deliveries: Sequence[LedgerDelivery], now: datetime) -> Way | Stay:
    """For a row whose mail is in the ledger: LEDGER where `requeue_emails` finds something to send.

    FOLLOW: the row says FAILED and the mail is under way, or everybody has it by now. So it is after a crash between
    the ledger's commit and the row's, and after a receipt that came late.
    """
    if not deliveries:
        return Stay("the ledger has it no more: have its service enqueue it again, if it still matters")
    failed = [each for each in deliveries if each.repairable]
    if failed and deliveries[0].state is NotificationState.CANCELLED:
        return Stay("it was cancelled")
    if failed and deliveries[0].has_content:
        return Way.LEDGER if any(each.expires_at > now for each in failed) else Stay(EXPIRED)
    statuses = {each.status for each in deliveries}
    if statuses & _WAITING or statuses <= _REACHED:
        return Way.FOLLOW
    return Stay(CLEARED)
