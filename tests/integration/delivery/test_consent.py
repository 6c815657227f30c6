"""Marketing is asked about once more right before it goes (C5); fixtures: pool, key_ring, redis_client, key_prefix."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from redis.asyncio import Redis

from shared.core.consent import Line, Source, user_subject
from shared.core.identifier import new_id
from shared.core.ports import Prepared, SendWindow
from shared.core.sealing import KeyRing
from shared.delivery.consent import ConsentCheck
from shared.delivery.store import DeliveryStore
from shared.kafka.error import PublishError
from shared.postgres.consent import append
from shared.postgres.pool import Pool
from shared.providers.simulated import SimulatedSender
from shared.redis_store.token_bucket import Quota, TokenBuckets
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from tests.integration.delivery.world import ScriptedSender, Seeded, World, make_world

pytestmark = pytest.mark.postgres

MARKETING = {"marketing": True}


class Ledger:
    """What people say, appended as the services append it."""

    def __init__(self, pool: Pool, ring: KeyRing) -> None:
        self._pool = pool
        self._ring = ring

    async def says(self, channel: str, *subjects: bytes, granted: bool = True) -> None:
        at = datetime.now(UTC)
        lines = [Line(new_id(), subject, channel, granted, at, Source.HS_WEB) for subject in subjects]
        async with self._pool.acquire() as connection, connection.transaction():
            await append(connection, self._ring, lines)


@pytest.fixture
def ledger(pool: Pool, key_ring: KeyRing) -> Ledger:
    return Ledger(pool, key_ring)


async def users(world: World, seeded: Sequence[Seeded]) -> list[int]:
    """A user of their own for each delivery, as the router knows them."""
    pool = world.seeder.pool
    rows = await pool.fetch(
        "INSERT INTO ulak.recipients (external_id) SELECT 'user-' || n FROM generate_series(1, $1) AS n"
        " RETURNING user_id",
        len(seeded),
    )
    ids = [row["user_id"] for row in rows]
    await pool.execute(
        "UPDATE ulak.notifications n SET user_id = g.user_id FROM unnest($1::uuid[], $2::bigint[]) AS g(id, user_id)"
        " WHERE n.id = g.id",
        [each.key.notification_id for each in seeded],
        ids,
    )
    return ids


async def sales(world: World, channel: str, count: int) -> list[Seeded]:
    """Marketing to so many addresses."""
    addresses = {
        "SMS": lambda n: f"+90532123{n:04}",
        "EMAIL": lambda n: f"user{n}@example.com",
        "PUSH": lambda n: f"{n:064x}",
    }
    return [
        await world.seeder.delivery(
            channel, message_class=MessageClass.BULK, address=addresses[channel](number), columns=MARKETING
        )
        for number in range(count)
    ]


async def test_of_100_queued_one_opts_out_at_the_30th_C5(pool: Pool, key_ring: KeyRing, ledger: Ledger) -> None:
    sender = ScriptedSender(provider="apns", concurrency=5)
    world = make_world("push-bulk", pool, key_ring, sender=sender)
    queued = await sales(world, "PUSH", 100)
    ids = await users(world, queued)
    await ledger.says("PUSH", *(user_subject(key_ring, user_id) for user_id in ids))

    async def opt_out() -> None:
        if len(sender.sent) == 30:
            await ledger.says("PUSH", user_subject(key_ring, ids[80]), granted=False)

    sender.during = opt_out
    await world.work(*queued)
    assert {message.key for message in sender.sent} == {each.key for each in queued} - {queued[80].key}
    row = await world.seeder.row(queued[80].key)
    assert (row["status"], row["reason"], row["attempt"]) == ("SKIPPED", "no_consent", 0)
    assert world.statuses().count(("SKIPPED", "no_consent")) == 1
    assert await world.seeder.leases() == 0
    assert await world.seeder.log(queued[80].key) == [("verdict", "skip")]


@pytest.mark.parametrize(
    ("lane", "channel", "provider"), [("sms-bulk", "SMS", "twilio"), ("email-bulk", "EMAIL", "smtp")]
)
async def test_an_addresss_own_consent_counts(
    pool: Pool, key_ring: KeyRing, ledger: Ledger, lane: str, channel: str, provider: str
) -> None:
    world = make_world(lane, pool, key_ring, sender=ScriptedSender(provider=provider))
    yes, never, withdrew, complained = await sales(world, channel, 4)
    await ledger.says(channel, *(each.key.target_key for each in (yes, withdrew, complained)))
    await ledger.says(channel, withdrew.key.target_key, granted=False)
    transactional = await world.seeder.delivery(
        channel, message_class=MessageClass.BULK, address="+905321230003" if channel == "SMS" else "user3@example.com"
    )
    assert transactional.key.target_key == complained.key.target_key
    await pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason, scope) VALUES ($1, $2, 'complaint', 'MARKETING')",
        *(channel, complained.key.target_key),
    )
    await world.work(yes, never, withdrew, complained, transactional)
    assert {message.key for message in world.sender.sent} == {yes.key, transactional.key}
    reasons = {each: (await world.seeder.row(each.key))["reason"] for each in (never, withdrew, complained)}
    assert reasons == {never: "no_consent", withdrew: "no_consent", complained: "suppressed"}


async def test_whom_nobody_knows_has_not_consented(pool: Pool, key_ring: KeyRing) -> None:
    world = make_world("push-bulk", pool, key_ring, sender=ScriptedSender(provider="apns"))
    [queued] = await sales(world, "PUSH", 1)
    await world.work(queued)
    assert world.sender.sent == []
    assert world.statuses() == [("SKIPPED", "no_consent")]


async def test_a_test_needs_consent_but_no_suppression_keeps_it(pool: Pool, key_ring: KeyRing, ledger: Ledger) -> None:
    scripted = ScriptedSender()
    world = make_world(
        "sms-bulk", pool, key_ring, sender=scripted, senders={"twilio": scripted, "simulated": SimulatedSender()}
    )
    consented, refused = [
        await world.seeder.delivery(
            message_class=MessageClass.BULK, address=f"+90532123456{number}", mode="test", columns=MARKETING
        )
        for number in range(2)
    ]
    await ledger.says("SMS", consented.key.target_key)
    await pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason) VALUES ('SMS', $1, 'manual')",
        consented.key.target_key,
    )
    await world.work(consented, refused)
    assert sorted(world.statuses(), key=str) == [("SENT", None), ("SKIPPED", "no_consent")]


@pytest.mark.redis
async def test_the_token_of_who_left_goes_to_who_stayed(
    pool: Pool, key_ring: KeyRing, ledger: Ledger, redis_client: Redis, key_prefix: str
) -> None:
    """One token, and none to come within anybody's patience: without a refund the second would wait in a tier."""
    quota, buckets = Quota("twilio", 0.01), TokenBuckets(redis_client, key_prefix)
    await buckets.take(quota, 1, critical=False)
    await buckets.refund(quota, 1, critical=False)
    sender = ScriptedSender(concurrency=1)
    world = make_world("sms-bulk", pool, key_ring, sender=sender, buckets=buckets, quotas={"twilio": quota})
    queued = await sales(world, "SMS", 2)
    left, stayed = sorted(queued, key=lambda each: each.key.notification_id)
    await ledger.says("SMS", stayed.key.target_key)
    await world.work(left, stayed)
    assert [message.key for message in sender.sent] == [stayed.key]
    assert world.hints(600) == []
    assert (await buckets.take(quota, 1, critical=False)).granted == 0


class NoDatabase:
    """Fails whoever asks it anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


async def test_what_is_no_marketing_asks_nothing(pool: Pool, key_ring: KeyRing) -> None:
    lane = DEFAULT_CHANNELS.lane("sms-tx")
    world = make_world("sms-tx", pool, key_ring)
    seeded = await world.seeder.delivery()
    rows = await DeliveryStore(pool, lane).load([seeded.key])
    check = ConsentCheck(
        NoDatabase(),  # type: ignore[arg-type]
        DEFAULT_CHANNELS.spec("SMS"),
        FixedRingSource(key_ring),
    )
    assert await check.refused(list(rows.values())) == {}


async def test_told_again_after_a_crash_between_the_commit_and_the_event(
    pool: Pool, key_ring: KeyRing, ledger: Ledger
) -> None:
    world = make_world("sms-bulk", pool, key_ring)
    stays, left = await sales(world, "SMS", 2)
    await ledger.says("SMS", stays.key.target_key)
    world.producer.fail_next("broker gone")
    with pytest.raises(PublishError):
        await world.work(stays, left)
    await world.work(stays, left)
    assert [message.key for message in world.sender.sent] == [stays.key]
    assert set(world.statuses()) == {("SENT", None), ("SKIPPED", "no_consent")}


class SlowWire(ScriptedSender):
    """Sends when told to; until then everybody behind it waits for a place."""

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Any]:
        self.entered.set()
        assert self.gate is not None
        await self.gate.wait()
        return await super().send(batch, window)


async def test_withdrawals_while_others_are_on_the_wire(pool: Pool, key_ring: KeyRing, ledger: Ledger) -> None:
    """Two workers with the same hints, a wire that stands still, and everybody behind it leaves meanwhile."""
    gate = asyncio.Event()
    worlds = [
        make_world("sms-bulk", pool, key_ring, sender=SlowWire(concurrency=1, gate=gate, entered=asyncio.Event()))
        for _ in range(2)
    ]
    queued = await sales(worlds[0], "SMS", 20)
    await ledger.says("SMS", *(each.key.target_key for each in queued))
    work = [asyncio.create_task(world.work(*queued)) for world in worlds]
    await asyncio.wait_for(asyncio.gather(*(world.sender.entered.wait() for world in worlds)), 60)
    claimed = {
        row["target_key"] for row in await pool.fetch("SELECT target_key FROM ulak.deliveries WHERE status = 'SENDING'")
    }
    waiting = [each.key.target_key for each in queued if each.key.target_key not in claimed]
    await ledger.says("SMS", *waiting, granted=False)
    late = await pool.fetch("SELECT target_key FROM ulak.deliveries WHERE status = 'SENDING'")
    gate.set()
    await asyncio.gather(*work)
    sent = {message.key.target_key for world in worlds for message in world.sender.sent}
    assert sent <= claimed | {row["target_key"] for row in late}
    assert len(sent) == sum(len(world.sender.sent) for world in worlds)
    left = await pool.fetchval(
        "SELECT count(*) FROM ulak.deliveries WHERE status = 'SKIPPED' AND reason = 'no_consent'"
    )
    assert left == 20 - len(sent)
    assert left > 0
