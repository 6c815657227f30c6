"""After a pause: in order, at its pace, by however many relays, through a crash; and into no lane that is paused."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.relay.deferred import DeferredReleaser
from services.relay.release import PauseGauges, PauseRelease
from shared.core.control import PauseKind
from shared.core.identifier import new_id
from shared.core.lifecycle import NotificationState
from shared.core.reference import DeliveryKey
from shared.kafka.memory import InMemoryProducer
from shared.postgres.audit_log import Actor
from shared.postgres.control_watch import watching
from shared.postgres.pause import begin_pause, end_pause
from shared.postgres.pool import Pool
from shared.runtime.metrics import PAUSE_WAITING, PAUSES_IN_FORCE
from shared.wire.channel import DEFAULT_CHANNELS
from tests.integration.relay.rows import add_delivery, add_notification

pytestmark = pytest.mark.postgres

ADA = Actor("operator ada")
FAR = timedelta(hours=1)


async def paused(pool: Pool, kind: PauseKind = PauseKind.TYPE, key: str = "ORDER_SHIPPED") -> UUID:
    async with pool.acquire() as connection, connection.transaction():
        made, _ = await begin_pause(connection, ADA, kind, key, "wrong price")
    return made.id


async def resumed(pool: Pool, *, per_second: float | None = None, credit_sec: float = 1.0) -> None:
    """credit_sec: so long ago."""
    async with pool.acquire() as connection, connection.transaction():
        await end_pause(connection, ADA, PauseKind.TYPE, "ORDER_SHIPPED", per_second=per_second)
    await pool.execute("UPDATE ulak.pauses SET released_to = now() - $1::float8 * interval '1 second'", credit_sec)


async def wait_under(pool: Pool, pause_id: UUID, count: int) -> list[DeliveryKey]:
    """Deliveries held by it, oldest first."""
    keys = [
        await add_delivery(pool, await add_notification(pool, state=NotificationState.DECIDED)) for _ in range(count)
    ]
    await pool.executemany(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key, pause_id)"
        " VALUES ($1, 'delivery', $2, $3, $4, $5)",
        [
            (datetime.now(UTC) + FAR, key.notification_id, key.channel, key.target_key, pause_id)
            for key in reversed(keys)
        ],
    )
    return keys


async def let_go(pool: Pool) -> list[UUID]:
    rows = await pool.fetch("SELECT notification_id FROM ulak.deferred WHERE pause_id IS NULL ORDER BY due_at")
    return [row["notification_id"] for row in rows]


async def test_nothing_is_let_go_while_the_pause_is_in_force(pool: Pool) -> None:
    await wait_under(pool, await paused(pool), 3)
    assert not await PauseRelease(pool, per_second=1000).round()
    assert await let_go(pool) == []


async def test_in_the_order_of_acceptance_at_the_pace_that_was_named(pool: Pool) -> None:
    keys = await wait_under(pool, await paused(pool), 8)
    await resumed(pool, per_second=5, credit_sec=1.0)
    await PauseRelease(pool, per_second=1000).round()
    gone = await let_go(pool)
    assert 5 <= len(gone) < 8  # what a second allows, and what passed since; not the relay's own pace
    assert gone == [key.notification_id for key in keys][: len(gone)]


async def test_a_pause_is_over_when_nothing_waits_under_it(pool: Pool) -> None:
    pause_id = await paused(pool)
    await wait_under(pool, pause_id, 3)
    await resumed(pool)
    release = PauseRelease(pool, per_second=1000)
    await release.round()
    assert len(await let_go(pool)) == 3
    assert await pool.fetchval("SELECT ended_at IS NOT NULL FROM ulak.pauses WHERE id = $1", pause_id)
    before = await pool.fetchval("SELECT released_to FROM ulak.pauses")
    await release.round()
    assert await pool.fetchval("SELECT released_to FROM ulak.pauses") == before


async def test_letting_go_stops_no_claim(pool: Pool) -> None:
    await wait_under(pool, await paused(pool), 3)
    await resumed(pool)
    revision = await pool.fetchval("SELECT revision FROM ulak.control_revision")
    await PauseRelease(pool, per_second=1000).round()
    assert len(await let_go(pool)) == 3
    assert await pool.fetchval("SELECT revision FROM ulak.control_revision") == revision


async def test_two_relays_share_the_pace(pool: Pool) -> None:
    await wait_under(pool, await paused(pool), 40)
    await resumed(pool, per_second=10, credit_sec=1.0)
    relays = [PauseRelease(pool, per_second=1000) for _ in range(4)]
    began = await pool.fetchval("SELECT released_to FROM ulak.pauses")
    await asyncio.gather(*(relay.round() for relay in relays))
    used, gone = await pool.fetchval("SELECT released_to FROM ulak.pauses") - began, len(await let_go(pool))
    assert used == timedelta(seconds=gone / 10)


async def test_killed_in_the_release_nothing_is_let_go_and_no_pace_is_used(pool: Pool) -> None:
    await wait_under(pool, await paused(pool), 3)
    await resumed(pool)
    before = await pool.fetchval("SELECT released_to FROM ulak.pauses")
    await pool.execute("ALTER TABLE ulak.pauses RENAME COLUMN ended_at TO hidden_end")  # the last statement fails
    with pytest.raises(Exception, match="ended_at"):
        await PauseRelease(pool, per_second=1000).round()
    assert await let_go(pool) == []
    await pool.execute("ALTER TABLE ulak.pauses RENAME COLUMN hidden_end TO ended_at")
    assert await pool.fetchval("SELECT released_to FROM ulak.pauses") == before
    await PauseRelease(pool, per_second=1000).round()
    assert len(await let_go(pool)) == 3


async def test_a_hint_lost_after_the_release_is_repeated(pool: Pool, broker: InMemoryProducer) -> None:
    """Killed between the release and the flush: the due row is there until the delivery has settled."""
    (key,) = await wait_under(pool, await paused(pool), 1)
    await resumed(pool)
    await PauseRelease(pool, per_second=1000).round()
    async with watching(pool) as watch:
        releaser = DeferredReleaser(pool, broker, DEFAULT_CHANNELS, watch=watch, visibility_sec=0)
        await releaser.round()
        await releaser.round()
        assert len(broker.on("push-tx")) == 2
        await pool.execute("UPDATE ulak.deliveries SET status = 'SENT'")
        await releaser.round()
    assert await let_go(pool) == []
    assert key.channel == "PUSH"


async def test_what_another_pause_holds_now_is_asked_for_by_that_one_alone(
    pool: Pool, broker: InMemoryProducer
) -> None:
    first = await paused(pool)
    (key,) = await wait_under(pool, first, 1)
    await resumed(pool)
    await PauseRelease(pool, per_second=1000).round()
    other = await paused(pool, PauseKind.API_KEY, str(UUID(int=5)))
    await pool.execute(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key, pause_id)"
        " VALUES (now() + interval '1 hour', 'delivery', $1, $2, $3, $4)",
        key.notification_id,
        key.channel,
        key.target_key,
        other,
    )
    async with watching(pool) as watch:
        await DeferredReleaser(pool, broker, DEFAULT_CHANNELS, watch=watch, visibility_sec=0).round()
    assert broker.records == []
    assert await pool.fetchval("SELECT array_agg(pause_id) FROM ulak.deferred") == [other]


async def test_no_hints_heap_up_in_a_paused_lane(pool: Pool, broker: InMemoryProducer) -> None:
    """What is due there waits under the lane's pause instead, and comes back with it."""
    lane = await paused(pool, PauseKind.LANE, "push-tx")
    key = await add_delivery(pool, await add_notification(pool, state=NotificationState.DECIDED))
    await pool.execute(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key)"
        " VALUES (now(), 'delivery', $1, $2, $3)",
        key.notification_id,
        key.channel,
        key.target_key,
    )
    async with watching(pool) as watch:
        releaser = DeferredReleaser(pool, broker, DEFAULT_CHANNELS, watch=watch, visibility_sec=0)
        await releaser.round()
        await releaser.round()
        assert broker.records == []
        assert await pool.fetchval("SELECT array_agg(pause_id) FROM ulak.deferred") == [lane]
        revision = watch.current.revision
        async with pool.acquire() as connection, connection.transaction():
            await end_pause(connection, ADA, PauseKind.LANE, "push-tx", per_second=None)
        await pool.execute("UPDATE ulak.pauses SET released_to = released_to - interval '1 second'")
        await watch.other_than(revision)
        await PauseRelease(pool, per_second=1000).round()
        await releaser.round()
    assert len(broker.on("push-tx")) == 1


async def test_pauses_and_what_waits_are_measured(pool: Pool) -> None:
    await wait_under(pool, await paused(pool), 3)
    await paused(pool, PauseKind.LANE, "push-bulk")
    await PauseGauges(pool).round()
    assert PAUSES_IN_FORCE.labels("type")._value.get() == PAUSES_IN_FORCE.labels("lane")._value.get() == 1
    assert PAUSE_WAITING.labels("type")._value.get() == 3
    assert PAUSE_WAITING.labels("provider")._value.get() == 0


async def test_a_notification_that_is_gone_leaves_nothing_under_its_pause(pool: Pool, broker: InMemoryProducer) -> None:
    pause_id = await paused(pool)
    await pool.execute(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key, pause_id)"
        " VALUES (now(), 'delivery', $1, 'PUSH', '\\x01', $2)",
        new_id(),
        pause_id,
    )
    async with watching(pool) as watch:
        await DeferredReleaser(pool, broker, DEFAULT_CHANNELS, watch=watch, visibility_sec=0).round()
    assert await pool.fetchval("SELECT count(*) FROM ulak.deferred") == 0
