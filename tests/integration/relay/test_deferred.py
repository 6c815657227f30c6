"""What waited is asked for when it is due, until it is decided or sent."""

from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.relay.deferred import DeferredReleaser
from shared.core.identifier import new_id
from shared.core.lifecycle import NotificationState
from shared.core.reference import DeliveryKey
from shared.kafka.memory import InMemoryProducer
from shared.postgres.control_watch import ControlWatch
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS
from shared.wire.message import DeliveryHint, RequestHint, decode
from tests.integration.relay.rows import add_delivery, add_notification, count

pytestmark = pytest.mark.postgres


async def defer(pool: Pool, notification_id: UUID, *, due: timedelta, pause_id: UUID | None = None) -> None:
    await pool.execute(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id, pause_id) VALUES ($1, 'notification', $2, $3)",
        datetime.now(UTC) + due,
        notification_id,
        pause_id,
    )


def releaser(pool: Pool, broker: InMemoryProducer, visibility_sec: float) -> DeferredReleaser:
    return DeferredReleaser(pool, broker, DEFAULT_CHANNELS, watch=ControlWatch(pool), visibility_sec=visibility_sec)


async def hold(pool: Pool, key: DeliveryKey, *, due: timedelta) -> None:
    await pool.execute(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key) "
        "VALUES ($1, 'delivery', $2, $3, $4)",
        datetime.now(UTC) + due,
        key.notification_id,
        key.channel,
        key.target_key,
    )


def asked_for(broker: InMemoryProducer) -> list[UUID]:
    return [decode(RequestHint, record.value).notification_id for record in broker.on("notification-requests-tx")]


async def test_a_due_one_is_asked_for_and_its_row_stays_until_it_is_decided(
    pool: Pool, broker: InMemoryProducer
) -> None:
    release = releaser(pool, broker, 0.0)
    due = await add_notification(pool, state=NotificationState.DEFERRED)
    await defer(pool, due, due=timedelta(seconds=-1))

    await release.round()
    await release.round()
    assert asked_for(broker) == [due, due], "a hint that was lost is repeated"

    await pool.execute("UPDATE ulak.notifications SET state = 'DECIDED'")
    await release.round()
    assert asked_for(broker) == [due, due]
    assert await count(pool, "deferred") == 0


async def test_a_released_one_is_not_asked_for_again_before_its_visibility_ends(
    pool: Pool, broker: InMemoryProducer
) -> None:
    release = releaser(pool, broker, 3600.0)
    due = await add_notification(pool, state=NotificationState.DEFERRED)
    await defer(pool, due, due=timedelta(seconds=-1))

    await release.round()
    await release.round()

    assert asked_for(broker) == [due]


async def test_what_is_not_due_or_held_by_a_pause_waits(pool: Pool, broker: InMemoryProducer) -> None:
    later = await add_notification(pool, state=NotificationState.DEFERRED)
    paused = await add_notification(pool, state=NotificationState.DEFERRED)
    await defer(pool, later, due=timedelta(hours=1))
    await defer(pool, paused, due=timedelta(hours=1), pause_id=new_id())

    await releaser(pool, broker, 0.0).round()

    assert broker.records == []
    assert await count(pool, "deferred") == 2


async def test_a_row_whose_notification_is_gone_is_removed(pool: Pool, broker: InMemoryProducer) -> None:
    await defer(pool, new_id(), due=timedelta(seconds=-1))

    await releaser(pool, broker, 0.0).round()

    assert broker.records == []
    assert await count(pool, "deferred") == 0


async def test_a_due_delivery_is_asked_for_on_its_lane_until_it_is_settled(
    pool: Pool, broker: InMemoryProducer
) -> None:
    release = releaser(pool, broker, 0.0)
    key = await add_delivery(pool, await add_notification(pool, state=NotificationState.DECIDED), attempt=2)
    await hold(pool, key, due=timedelta(seconds=-1))

    await release.round()
    (record,) = broker.on("push-tx")
    hint = decode(DeliveryHint, record.value)
    assert (hint.notification_id, hint.channel, hint.target_key, hint.attempt) == (*astuple(key), 2)
    assert record.key == b"42"

    await pool.execute("UPDATE ulak.deliveries SET status = 'SENDING'")
    await release.round()
    assert (len(broker.records), await count(pool, "deferred")) == (1, 1), "it may fall back to PENDING"

    await pool.execute("UPDATE ulak.deliveries SET status = 'SENT'")
    await release.round()
    assert (len(broker.records), await count(pool, "deferred")) == (1, 0)


async def test_a_delivery_that_was_put_off_again_has_another_row_for_that(pool: Pool, broker: InMemoryProducer) -> None:
    tomorrow = datetime.now(UTC) + timedelta(hours=12)
    key = await add_delivery(pool, await add_notification(pool), next_attempt_at=tomorrow)
    await hold(pool, key, due=timedelta(seconds=-1))
    await hold(pool, key, due=timedelta(hours=12))

    await releaser(pool, broker, 0.0).round()

    assert broker.records == []
    assert await count(pool, "deferred") == 1


async def test_ten_thousand_due_at_once_go_in_batches_and_what_is_due_next_follows_them(
    pool: Pool, broker: InMemoryProducer
) -> None:
    """Each once, in bounded steps between which everything else of the relay gets its turn."""
    await pool.execute(
        "INSERT INTO ulak.notifications (id, application_id, event_id, user_id, type, message_class, mode, state, "
        " expires_at, created_at) "
        "SELECT ulak.uuidv7(), 1, n::text, n, 'WINTER_SALE', 2, 'live', 'DEFERRED', now() + interval '1 hour', now() "
        "  FROM generate_series(1, 10000) AS n"
    )
    await pool.execute(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id) "
        "SELECT now() - interval '1 minute', 'notification', id FROM ulak.notifications"
    )
    one = await add_notification(pool, state=NotificationState.DEFERRED)
    await defer(pool, one, due=timedelta(seconds=-30))

    release = releaser(pool, broker, 3600.0)
    rounds, others = 1, 0
    while await release.round():
        rounds += 1
        others += await pool.fetchval("SELECT 1")

    assert (rounds, others) == (21, 20)
    assert len({record.key for record in broker.on("notification-requests-bulk")}) == 10_000
    assert len(broker.records) == 10_001
    assert asked_for(broker) == [one]
    assert await count(pool, "deferred") == 10_001, "until they are decided"
