"""Deferred notifications are asked for until they are decided."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.relay.deferred import DeferredReleaser
from shared.core.identifier import new_id
from shared.core.lifecycle import NotificationState
from shared.kafka.memory import InMemoryProducer
from shared.postgres.pool import Pool
from shared.wire.message import RequestHint, decode
from tests.integration.relay.rows import add_notification, count

pytestmark = pytest.mark.postgres


async def defer(pool: Pool, notification_id: UUID, *, due: timedelta, pause_id: UUID | None = None) -> None:
    await pool.execute(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id, pause_id) VALUES ($1, 'notification', $2, $3)",
        datetime.now(UTC) + due,
        notification_id,
        pause_id,
    )


def asked_for(broker: InMemoryProducer) -> list[UUID]:
    return [decode(RequestHint, record.value).notification_id for record in broker.on("notification-requests-tx")]


async def test_a_due_one_is_asked_for_and_its_row_stays_until_it_is_decided(
    pool: Pool, broker: InMemoryProducer
) -> None:
    releaser = DeferredReleaser(pool, broker, visibility_sec=0.0)
    due = await add_notification(pool, state=NotificationState.DEFERRED)
    await defer(pool, due, due=timedelta(seconds=-1))

    await releaser.round()
    await releaser.round()
    assert asked_for(broker) == [due, due], "a hint that was lost is repeated"

    await pool.execute("UPDATE ulak.notifications SET state = 'DECIDED'")
    await releaser.round()
    assert asked_for(broker) == [due, due]
    assert await count(pool, "deferred") == 0


async def test_a_released_one_is_not_asked_for_again_before_its_visibility_ends(
    pool: Pool, broker: InMemoryProducer
) -> None:
    releaser = DeferredReleaser(pool, broker, visibility_sec=3600.0)
    due = await add_notification(pool, state=NotificationState.DEFERRED)
    await defer(pool, due, due=timedelta(seconds=-1))

    await releaser.round()
    await releaser.round()

    assert asked_for(broker) == [due]


async def test_what_is_not_due_or_held_by_a_pause_waits(pool: Pool, broker: InMemoryProducer) -> None:
    later = await add_notification(pool, state=NotificationState.DEFERRED)
    paused = await add_notification(pool, state=NotificationState.DEFERRED)
    await defer(pool, later, due=timedelta(hours=1))
    await defer(pool, paused, due=timedelta(hours=-1), pause_id=new_id())

    await DeferredReleaser(pool, broker, visibility_sec=0.0).round()

    assert broker.records == []
    assert await count(pool, "deferred") == 2


async def test_a_row_whose_notification_is_gone_is_removed(pool: Pool, broker: InMemoryProducer) -> None:
    await defer(pool, new_id(), due=timedelta(seconds=-1))

    await DeferredReleaser(pool, broker, visibility_sec=0.0).round()

    assert broker.records == []
    assert await count(pool, "deferred") == 0
