"""A delivery as the pipeline sees it: its row, and what its notification says."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.wire.channel import MessageClass, Promise
from shared.wire.message import DeliveryHint


@dataclass(
    slots=True
)  # not frozen, though nobody changes it: that would take 2 microseconds more to make, of 25 in all
class DeliveryRow:
    """One row of `ulak.deliveries` with the facts that decide about it.

    attempt counts attempts made, without the one under way until its outcome is recorded (ADR 0005). cancelled
    is the notification's or the delivery's flag; suppressed, allowed (team mode) and withdrawn (marketing) were read
    with the row. marketing takes a consent, which is read again right before the send: user_id is whose, read for
    marketing alone. type_name is the notification's type, read for e-mail alone: its sender goes by it. content_sealed
    is not read for an e-mail request: it is the same for all its recipients. chosen_provider is the one that an
    operator's replay has named for it. Sealed fields are shown in no repr.
    """

    key: DeliveryKey
    status: DeliveryStatus
    reason: Reason | None
    message_class: MessageClass
    promise: Promise
    mode: str
    attempt: int
    next_attempt_at: datetime
    lease_until: datetime | None
    provider: str | None
    send_until: datetime | None
    expires_at: datetime
    created_at: datetime
    updated_at: datetime
    cancelled: bool = False
    suppressed: bool = False
    allowed: bool = True
    withdrawn: bool = False
    platform: str | None = None
    app_id: str = ""
    campaign_id: UUID | None = None
    chunk: int | None = None
    collapse_key: str | None = None
    address_sealed: bytes | None = field(default=None, repr=False)
    content_sealed: bytes | None = field(default=None, repr=False)
    content_purpose: str | None = None
    type_name: str | None = None
    marketing: bool = False
    user_id: int | None = None
    chosen_provider: str | None = None

    def hint(self, *, attempt: int, not_before: datetime | None) -> DeliveryHint:
        """The hint that asks for work on this delivery as it stands."""
        return DeliveryHint(
            notification_id=self.key.notification_id,
            channel=self.key.channel,
            target_key=self.key.target_key,
            attempt=attempt,
            message_class=self.message_class,
            not_before=not_before,
            campaign_id=self.campaign_id,
            chunk=self.chunk,
        )


@dataclass(frozen=True, slots=True)
class Owed:
    """A hint to publish: through the retry tier, or to the lane's own topic at once (None)."""

    hint: DeliveryHint
    tier_sec: int | None
