"""Deliveries that failed, as an operator finds them when they are to be sent again."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.core.replay import Standing
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.wire.channel import MessageClass
from shared.wire.message import DeliveryHint

_SQL: Final = load_queries("requeue")


@dataclass(frozen=True, slots=True)
class Failed:
    """A row with what decides whether it may go again.

    shared_content: it is one of a message's recipients, who go by one hint together. partition_key and traceparent are
    those of its hint.
    """

    key: DeliveryKey
    attempt: int
    message_class: MessageClass
    provider: str | None
    standing: Standing
    shared_content: bool
    campaign_id: UUID | None
    chunk: int | None
    partition_key: bytes
    traceparent: bytes | None

    @property
    def hint(self) -> DeliveryHint:
        """The hint of its first attempt."""
        return DeliveryHint(
            self.key.notification_id,
            self.key.channel,
            self.key.target_key,
            0,
            self.message_class,
            campaign_id=self.campaign_id,
            chunk=self.chunk,
        )


async def lock_deliveries(connection: Connection, keys: Collection[DeliveryKey]) -> frozenset[DeliveryKey]:
    """Those of the rows that are there and that nobody else is at, locked until the caller's transaction ends."""
    if not keys:
        return frozenset()
    records = await connection.fetch(_SQL["lock_deliveries"], *columns(keys))
    return frozenset(DeliveryKey(*record) for record in records)


async def lock_failed_emails(connection: Connection, notification_ids: Collection[UUID]) -> frozenset[DeliveryKey]:
    """All failed recipients of these messages, waited for and locked until the caller's transaction ends."""
    ids = sorted(notification_ids)
    records = await connection.fetch(_SQL["lock_failed_emails"], ids, ids[0], ids[-1])
    return frozenset(DeliveryKey(*record) for record in records)


async def load_failed(connection: Connection, keys: Collection[DeliveryKey]) -> Mapping[DeliveryKey, Failed]:
    """The rows that are there, whatever their status, in key order."""
    if not keys:
        return {}
    rows = await connection.fetch(_SQL["load_standing"], *columns(keys))
    return {failed.key: failed for failed in map(_failed, rows)}


def columns(keys: Collection[DeliveryKey]) -> tuple[Sequence[UUID], UUID, UUID, Sequence[str], Sequence[bytes]]:
    """Keys as the queries take them: ids, smallest, largest, channels, target keys. Not for none."""
    ids = [key.notification_id for key in keys]
    return ids, min(ids), max(ids), [key.channel for key in keys], [key.target_key for key in keys]


def _failed(row: Any) -> Failed:
    notification_id, user_id, traceparent = row["notification_id"], row["user_id"], row["traceparent"]
    return Failed(
        key=DeliveryKey(notification_id, row["channel"], row["target_key"]),
        attempt=row["attempt"],
        message_class=MessageClass(row["message_class"]),
        provider=row["provider"],
        standing=Standing(
            status=DeliveryStatus(row["status"]),
            reason=None if row["reason"] is None else Reason(row["reason"]),
            expires_at=row["expires_at"],
            cancelled=row["cancelled"],
            suppressed=row["suppressed"],
            superseded=row["superseded"],
            has_content=row["has_content"],
        ),
        shared_content=row["shared_content"],
        campaign_id=row["campaign_id"],
        chunk=row["chunk"],
        partition_key=str(notification_id if user_id is None else user_id).encode(),
        traceparent=None if traceparent is None else traceparent.encode(),
    )
