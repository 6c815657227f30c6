"""What pauses stop in a worker, what they keep, and what a crash or a second worker meanwhile leaves of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.relay.deferred import DeferredReleaser
from services.relay.release import PauseRelease
from shared.core.control import Pause, PauseKind
from shared.core.outcome import Accepted
from shared.core.sealing import KeyRing, Purpose
from shared.kafka.error import PublishError
from shared.kafka.memory import InMemoryProducer
from shared.postgres.audit_log import Actor
from shared.postgres.control_watch import ControlWatch, watching
from shared.postgres.pause import begin_pause, end_pause
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from tests.integration.delivery.world import ScriptedSender, Seeded, World, make_world

pytestmark = pytest.mark.postgres

ADA = Actor("operator ada")
KEY = UUID(int=5)


async def pause(pool: Pool, kind: PauseKind, key: str) -> Pause:
    async with pool.acquire() as connection, connection.transaction():
        made, _ = await begin_pause(connection, ADA, kind, key, "wrong price")
    return made


async def resume(pool: Pool, kind: PauseKind, key: str, per_second: float | None = None) -> None:
    async with pool.acquire() as connection, connection.transaction():
        assert await end_pause(connection, ADA, kind, key, per_second=per_second) is not None


async def held(pool: Pool, made: Pause) -> list[UUID]:
    rows = await pool.fetch(
        "SELECT notification_id FROM ulak.deferred WHERE pause_id = $1 ORDER BY notification_id", made.id
    )
    return [row["notification_id"] for row in rows]


@asynccontextmanager
async def informed(world_of: "WorldOf") -> AsyncIterator[World]:
    """A world that knows what is in force when it begins, and hears of nothing by itself afterwards."""
    async with watching(world_of.pool, poll_sec=3600) as watch:
        yield world_of(watch)


class WorldOf:
    def __init__(self, pool: Pool, ring: KeyRing, lane: str = "sms-tx") -> None:
        self.pool, self.ring, self.lane = pool, ring, lane

    def __call__(self, watch: ControlWatch, sender: ScriptedSender | None = None) -> World:
        return make_world(self.lane, self.pool, self.ring, watch=watch, sender=sender)


@pytest.fixture
def world_of(pool: Pool, key_ring: KeyRing) -> WorldOf:
    return WorldOf(pool, key_ring)


async def seed_of_key(world: World) -> Seeded:
    seeded = await world.seeder.delivery()
    await world.seeder.pool.execute("UPDATE ulak.notifications SET api_key_id = $1", KEY)
    return seeded


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (PauseKind.TYPE, "ORDER_SHIPPED"),
        (PauseKind.TEMPLATE, "ORDER_SHIPPED/SMS/tr/1"),
        (PauseKind.API_KEY, str(KEY)),
        (PauseKind.PROVIDER, "twilio"),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["known-before", "found-by-the-claim"])
async def test_what_is_paused_is_kept_and_nothing_of_it_is_sent(
    pool: Pool, world_of: WorldOf, kind: PauseKind, key: str, *, known: bool
) -> None:
    async with watching(pool, poll_sec=3600) as watch:
        world, before = world_of(watch), watch.current.revision
        made = await pause(pool, kind, key)
        if known:
            await watch.other_than(before)
        seeded = await seed_of_key(world)
        assert await world.work(seeded) == []
        for _ in world.hints():  # of a provider found paused by the claim the hint is read again
            await world.work(seeded)
        assert world.sender.sent == []
        assert await held(pool, made) == [seeded.key.notification_id]
        row = await world.seeder.row(seeded.key)
        assert (row["status"], row["attempt"], row["claim_id"]) == ("PENDING", 0, None)
        assert await world.seeder.leases() == 0
        assert await world.seeder.log(seeded.key) == [("verdict", "defer")]


async def test_what_is_not_named_goes_on(pool: Pool, world_of: WorldOf) -> None:
    for kind, key in [
        (PauseKind.TYPE, "SALE"),
        (PauseKind.TEMPLATE, "ORDER_SHIPPED/SMS/tr/2"),
        (PauseKind.API_KEY, str(UUID(int=6))),
        (PauseKind.PROVIDER, "netgsm"),
        (PauseKind.LANE, "sms-bulk"),
    ]:
        await pause(pool, kind, key)
    async with informed(world_of) as world:
        await world.work(await seed_of_key(world))
        assert len(world.sender.sent) == 1
        assert await pool.fetchval("SELECT count(*) FROM ulak.deferred") == 0


async def test_of_one_batch_only_what_is_named_waits(pool: Pool, world_of: WorldOf) -> None:
    made = await pause(pool, PauseKind.TYPE, "SALE")
    async with informed(world_of) as world:
        sale = [await world.seeder.delivery(type_name="SALE") for _ in range(3)]
        order = [await world.seeder.delivery() for _ in range(3)]
        await world.work(*sale, *order)
        assert await held(pool, made) == [each.key.notification_id for each in sale]
        assert {message.key for message in world.sender.sent} == {each.key for each in order}


async def test_a_paused_lane_keeps_its_hints(pool: Pool, world_of: WorldOf) -> None:
    """What was taken off the topic before the pause goes back to it, behind the others."""
    await pause(pool, PauseKind.LANE, "sms-tx")
    async with informed(world_of) as world:
        seeded = await world.seeder.delivery()
        await world.work(seeded)
        assert world.sender.sent == []
        assert [(hint.attempt, hint.not_before) for hint in world.hints()] == [(0, None)]
        assert await pool.fetchval("SELECT count(*) FROM ulak.deferred") == 0


@pytest.mark.parametrize(
    ("kind", "key"), [(PauseKind.TYPE, "OTP"), (PauseKind.PROVIDER, "twilio"), (PauseKind.API_KEY, str(KEY))]
)
async def test_login_codes_go_on_unless_their_lane_is_named(
    pool: Pool, key_ring: KeyRing, kind: PauseKind, key: str
) -> None:
    await pause(pool, kind, key)
    async with informed(WorldOf(pool, key_ring, "otp-sms")) as world:
        code = await world.seeder.delivery(message_class=MessageClass.CRITICAL, type_name="OTP", purpose=Purpose.OTP)
        await pool.execute("UPDATE ulak.notifications SET api_key_id = $1", KEY)
        await world.work(code)
        assert len(world.sender.sent) == 1


async def test_login_codes_wait_where_their_lane_is_paused(pool: Pool, key_ring: KeyRing) -> None:
    await pause(pool, PauseKind.LANE, "otp-sms")
    async with informed(WorldOf(pool, key_ring, "otp-sms")) as world:
        await world.work(await world.seeder.delivery(message_class=MessageClass.CRITICAL, purpose=Purpose.OTP))
        assert world.sender.sent == []
        assert len(world.hints()) == 1


async def test_the_claim_of_a_worker_that_has_not_heard_is_refused(pool: Pool, world_of: WorldOf) -> None:
    """Between its load and its claim the pause commits: the row's own statement stops it, not the polling."""
    async with watching(pool, poll_sec=3600) as watch:
        world = world_of(watch)
        seeded = await world.seeder.delivery()
        made = await pause(pool, PauseKind.TYPE, "ORDER_SHIPPED")
        assert not watch.current.pauses
        await world.work(seeded)
        assert world.sender.sent == []
        assert await held(pool, made) == [seeded.key.notification_id]
        assert watch.current.holding, "it has read what it was told of"


async def test_another_change_than_a_pause_costs_a_second_look_and_no_wait(pool: Pool, world_of: WorldOf) -> None:
    async with informed(world_of) as world:
        seeded = await world.seeder.delivery()
        await pool.execute("INSERT INTO ulak.provider_drains (account, drained_by) VALUES ('fcm', 'ada')")
        await world.work(seeded)
        assert len(world.sender.sent) == 1
        assert await world.seeder.log(seeded.key) == [("attempt", "accepted")]


@pytest.mark.parametrize(("kind", "key"), [(PauseKind.LANE, "sms-tx"), (PauseKind.PROVIDER, "twilio")])
async def test_claimed_and_not_yet_begun_is_given_back_uncounted(
    pool: Pool, world_of: WorldOf, kind: PauseKind, key: str
) -> None:
    """The pause comes between the claim and the send."""
    gate = asyncio.Event()
    async with watching(pool, poll_sec=3600) as watch:
        world = world_of(watch, ScriptedSender(gate=gate))
        seeded = await world.seeder.delivery()
        working = asyncio.create_task(world.work(seeded))
        await world.sender.entered.wait()
        revision = watch.current.revision
        await pause(pool, kind, key)
        await watch.other_than(revision)
        gate.set()
        await working
        assert world.sender.sent == []
        row = await world.seeder.row(seeded.key)
        assert (row["status"], row["attempt"], row["claim_id"]) == ("PENDING", 0, None)
        assert [hint.attempt for hint in world.hints()] == [0]


async def test_what_was_on_the_wire_when_the_pause_came_is_recorded(pool: Pool, world_of: WorldOf) -> None:
    async with watching(pool, poll_sec=3600) as watch:
        sender = ScriptedSender(outcomes=[Accepted("id-1")])

        async def stop_everything() -> None:
            await pause(pool, PauseKind.LANE, "sms-tx")

        sender.during = stop_everything
        world = world_of(watch, sender)
        seeded = await world.seeder.delivery()
        await world.work(seeded)
        assert (await world.seeder.row(seeded.key))["status"] == "SENT"


async def test_a_hint_that_comes_again_finds_it_held_and_holds_it_once(pool: Pool, world_of: WorldOf) -> None:
    """Killed between the hold's commit and the offset's."""
    made = await pause(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    async with informed(world_of) as world:
        seeded = await world.seeder.delivery()
        await world.work(seeded)
        await world.work(seeded)
        assert await held(pool, made) == [seeded.key.notification_id]
        assert await world.seeder.log(seeded.key) == [("verdict", "defer")]


async def test_a_hold_that_did_not_commit_is_made_when_the_hint_comes_again(pool: Pool, world_of: WorldOf) -> None:
    made = await pause(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    async with informed(world_of) as world:
        seeded = await world.seeder.delivery()
        await pool.execute("ALTER TABLE ulak.delivery_log RENAME TO hidden_log")  # the hold's last statement fails
        with pytest.raises(Exception, match="delivery_log"):
            await world.work(seeded)
        assert await held(pool, made) == []
        await pool.execute("ALTER TABLE ulak.hidden_log RENAME TO delivery_log")
        await world.work(seeded)
        assert await held(pool, made) == [seeded.key.notification_id]


async def test_two_workers_with_the_same_hint_hold_it_once(pool: Pool, world_of: WorldOf) -> None:
    made = await pause(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    async with informed(world_of) as one, informed(world_of) as other:
        seeded = [await one.seeder.delivery() for _ in range(20)]
        await asyncio.gather(one.work(*seeded), other.work(*reversed(seeded)))
        assert await held(pool, made) == [each.key.notification_id for each in seeded]
        assert one.sender.sent == other.sender.sent == []


async def test_one_that_holds_after_the_resume_reads_it_again(pool: Pool, world_of: WorldOf) -> None:
    """It knows of the pause and not of its end: nothing is put where nobody would look any more."""
    made = await pause(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    async with informed(world_of) as world:
        await resume(pool, PauseKind.TYPE, "ORDER_SHIPPED")
        seeded = await world.seeder.delivery()
        await world.work(seeded)
        assert await held(pool, made) == []
        assert [hint.attempt for hint in world.hints()] == [0]


async def test_a_resume_waits_for_a_hold_under_way(pool: Pool, world_of: WorldOf) -> None:
    """So what it held is released, too."""
    made = await pause(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    async with pool.acquire() as connection:
        holding = connection.transaction()
        await holding.start()
        await connection.fetch("SELECT FROM ulak.pauses WHERE id = $1 FOR SHARE", made.id)
        ending = asyncio.create_task(resume(pool, PauseKind.TYPE, "ORDER_SHIPPED"))
        async with asyncio.timeout(60):
            while not await pool.fetchval(  # noqa: ASYNC110  # the server has no event to wait for
                "SELECT EXISTS (SELECT FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock')"
            ):
                await asyncio.sleep(0.01)
        assert not ending.done()
        await holding.commit()
    await ending


async def test_what_was_held_is_sent_after_the_resume_in_order(pool: Pool, world_of: WorldOf) -> None:
    await pause(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    broker = InMemoryProducer()
    async with informed(world_of) as world:
        seeded = [await world.seeder.delivery() for _ in range(5)]
        await world.work(*reversed(seeded))
    await resume(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    await pool.execute("UPDATE ulak.pauses SET released_to = released_to - interval '1 second'")
    await PauseRelease(pool, per_second=1000).round()
    async with watching(pool, poll_sec=3600) as watch:
        await DeferredReleaser(pool, broker, DEFAULT_CHANNELS, watch=watch, visibility_sec=60).round()
        assert len(broker.on("sms-tx")) == 5
        world = world_of(watch)
        await world.work(*seeded)
        assert [message.key for message in world.sender.sent] == [each.key for each in seeded]


async def test_what_expires_while_it_is_held_ends_so_and_is_told(pool: Pool, world_of: WorldOf) -> None:
    made = await pause(pool, PauseKind.TYPE, "ORDER_SHIPPED")
    async with informed(world_of) as world:
        seeded = await world.seeder.delivery()
        await world.work(seeded)
        past = datetime.now(UTC) - timedelta(seconds=1)
        await pool.execute("UPDATE ulak.deliveries SET expires_at = $1", past)
        await pool.execute("UPDATE ulak.deferred SET due_at = $1", past)  # as it was written: the delivery's own end
        broker = InMemoryProducer()
        release = DeferredReleaser(pool, broker, DEFAULT_CHANNELS, watch=ControlWatch(pool), visibility_sec=0)
        await release.round()
        assert len(broker.on("sms-tx")) == 1, "asked for although the pause goes on"
        await world.work(seeded)
        row = await world.seeder.row(seeded.key)
        assert (row["status"], row["reason"]) == ("SKIPPED", "expired")
        assert world.statuses() == [("SKIPPED", "expired")]
        assert await world.seeder.log(seeded.key) == [("verdict", "defer"), ("verdict", "skip")]
        await release.round()
        assert await held(pool, made) == []


async def test_a_broker_that_is_away_leaves_the_hold_and_the_hint(pool: Pool, world_of: WorldOf) -> None:
    """A paused lane's hint cannot be written back: the batch fails, and comes again."""
    await pause(pool, PauseKind.LANE, "sms-tx")
    async with informed(world_of) as world:
        seeded = await world.seeder.delivery()
        world.producer.fail_next("broker gone")
        with pytest.raises(PublishError):
            await world.work(seeded)
        await world.work(seeded)
        assert len(world.hints()) == 1
