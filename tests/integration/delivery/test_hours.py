"""Marketing that meets the night at the worker: put off to the morning, not sent, not lost."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import Any

import orjson
import pytest

from services.relay.deferred import DeferredReleaser
from shared.core.sealing import KeyRing
from shared.delivery.hours import AllowedHours
from shared.kafka.memory import InMemoryProducer
from shared.postgres.control_watch import ControlWatch
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from tests.integration.delivery.world import Seeded, World, make_world

pytestmark = pytest.mark.postgres

EVENING = datetime.now(UTC).replace(hour=19, minute=0, second=0, microsecond=0)
"""22:00 in Istanbul, of today."""
MORNING = EVENING + timedelta(hours=11)
SPREAD = timedelta(minutes=15)


@pytest.fixture
def at() -> list[datetime]:
    """The moment it is for the worker."""
    return [EVENING + timedelta(minutes=5)]


@pytest.fixture
async def world(pool: Pool, key_ring: KeyRing, at: list[datetime]) -> World:
    await pool.execute(
        "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
        "VALUES ('WINTER_SALE', 'MARKETING', 2, '{SMS}', 86400)"
    )
    return make_world("sms-bulk", pool, key_ring, clock=lambda: at[0])


async def sale(world: World, **columns: Any) -> Seeded:
    """One that was decided in the afternoon, to be sent until the evening."""
    fixed = {
        "next_attempt_at": EVENING - timedelta(hours=4),
        "send_until": EVENING,
        "expires_at": EVENING + timedelta(hours=24),
    }
    return await world.seeder.delivery(
        message_class=MessageClass.BULK, type_name="WINTER_SALE", columns={**fixed, **columns}
    )


async def due(world: World) -> list[Mapping[str, Any]]:
    rows = await world.seeder.pool.fetch("SELECT kind, due_at, channel, target_key FROM ulak.deferred")
    return [dict(row) for row in rows]


async def test_past_its_hours_it_waits_for_the_morning_and_goes_then(world: World, at: list[datetime]) -> None:
    seeded = await sale(world)
    assert await world.work(seeded) == []
    assert world.sender.sent == []
    assert world.producer.records == []
    row = await world.seeder.row(seeded.key)
    assert (row["status"], row["attempt"]) == ("PENDING", 0)
    assert MORNING <= row["next_attempt_at"] < MORNING + SPREAD
    assert row["send_until"] == EVENING + timedelta(days=1)
    (waiting,) = await due(world)
    assert list(waiting.values()) == ["delivery", row["next_attempt_at"], "SMS", seeded.key.target_key]
    assert await world.seeder.log(seeded.key) == [("verdict", "defer")]

    broker = InMemoryProducer()
    release = DeferredReleaser(
        world.seeder.pool, broker, DEFAULT_CHANNELS, watch=ControlWatch(world.seeder.pool), visibility_sec=0.0
    )
    await world.seeder.pool.execute("UPDATE ulak.deferred SET due_at = now()")
    await world.seeder.pool.execute("UPDATE ulak.deliveries SET next_attempt_at = now() - interval '1 second'")
    await release.round()
    (hint,) = broker.on("sms-bulk")
    assert orjson.loads(hint.value or b"")["channel"] == "SMS"
    at[0] = MORNING + SPREAD
    await world.work(seeded)
    assert len(world.sender.sent) == 1
    await release.round()
    assert await due(world) == []


async def test_the_night_that_begins_while_it_waits_for_tokens_stops_it_too(
    world: World, pool: Pool, key_ring: KeyRing
) -> None:
    """The claim refuses what was still allowed when it was read."""
    moments = chain([EVENING - timedelta(seconds=1)], repeat(EVENING))
    late = make_world("sms-bulk", pool, key_ring, clock=lambda: next(moments))
    seeded = await sale(late)
    await late.work(seeded)
    assert late.sender.sent == []
    assert len(await due(late)) == 1


async def test_the_users_own_zone_says_when_the_night_is_over(world: World, at: list[datetime]) -> None:
    user = await world.seeder.pool.fetchval(
        "INSERT INTO ulak.recipients (external_id, time_zone) VALUES ('7', 'Asia/Tokyo') RETURNING user_id"
    )
    evening = datetime.now(UTC).replace(hour=13, minute=0, second=0, microsecond=0)  # 22:00 there
    seeded = await sale(world, send_until=evening, next_attempt_at=evening - timedelta(hours=1))
    await world.seeder.pool.execute("UPDATE ulak.notifications SET user_id = $1", user)
    at[0] = evening + timedelta(minutes=1)
    await world.work(seeded)
    (waiting,) = await due(world)
    assert timedelta(0) <= waiting["due_at"] - (evening + timedelta(hours=11)) < SPREAD


async def test_two_workers_put_it_off_once(world: World, pool: Pool, key_ring: KeyRing, at: list[datetime]) -> None:
    seeded = await sale(world)
    other = make_world("sms-bulk", pool, key_ring, clock=lambda: at[0])
    stale = await other.pipeline._store.load([seeded.key])
    await world.work(seeded)
    await AllowedHours(pool, other.lane, default_zone="Europe/Istanbul").put_off(list(stale.values()), at[0])
    assert len(await due(world)) == 1
    assert await world.seeder.log(seeded.key) == [("verdict", "defer")]


async def test_a_hint_that_comes_again_meanwhile_sends_nothing(world: World) -> None:
    seeded = await sale(world)
    await world.work(seeded)
    await world.work(seeded)
    assert world.sender.sent == []
    assert len(await due(world)) == 1


async def test_what_expires_in_the_night_is_woken_to_be_told_so(world: World, at: list[datetime]) -> None:
    seeded = await sale(world, expires_at=EVENING + timedelta(hours=2))
    await world.work(seeded)
    (waiting,) = await due(world)
    assert waiting["due_at"] == EVENING + timedelta(hours=2)
    at[0] = waiting["due_at"]
    await world.work(seeded)
    assert world.statuses() == [("SKIPPED", "expired")]


async def test_a_worker_that_was_away_all_night_sends_by_day(world: World, at: list[datetime]) -> None:
    at[0] = MORNING + timedelta(hours=2)
    seeded = await sale(world)
    await world.work(seeded)
    (waiting,) = await due(world)
    assert waiting["due_at"] == at[0]
    await world.work(seeded)
    assert len(world.sender.sent) == 1
