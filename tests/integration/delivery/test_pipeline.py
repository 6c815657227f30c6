"""The order of one batch: what a row, an outcome and a crash in between lead to."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.core.identifier import new_id
from shared.core.outcome import (
    Permanent,
    Transient,
)
from shared.core.sealing import KeyRing, Purpose
from shared.kafka.error import PublishError
from shared.postgres.pool import Pool
from shared.providers.simulated import SimulatedSender
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass, Promise
from tests.integration.delivery.world import ScriptedSender, Seeded, Seeder, World, first_to_last, make_world, until

pytestmark = pytest.mark.postgres


async def test_sent_once_and_told(world: World) -> None:
    seeded = await world.seeder.delivery()
    assert await world.work(seeded) == []
    row = await world.seeder.row(seeded.key)
    assert (row["status"], row["attempt"], row["provider"]) == ("SENT", 1, "twilio")
    assert row["provider_message_id"] == "id-1"
    assert row["claim_id"] is None
    assert row["lease_until"] is None
    assert await world.seeder.leases() == 0
    assert world.statuses() == [("SENT", None)]
    assert await world.seeder.log(seeded.key) == [("attempt", "accepted")]
    message = world.sender.sent[0]
    assert message.address == "+905321234567"
    assert message.content == {"text": "Kodunuz hazır"}
    assert message.attempt == 1


async def test_redelivered_hint_of_a_settled_row_repeats_its_event_and_sends_nothing(world: World) -> None:
    seeded = await world.seeder.delivery()
    await world.work(seeded)
    await world.work(seeded)
    first, second = world.producer.on("delivery-events")
    assert first == second
    assert len(world.sender.sent) == 1


async def test_flush_failed_after_commit_then_redelivered_tells_it_K10(world: World) -> None:
    seeded = await world.seeder.delivery()
    world.producer.fail_next("broker gone")
    with pytest.raises(PublishError):
        await world.work(seeded)
    await world.work(seeded)
    assert world.statuses() == [("SENT", None)]
    assert len(world.sender.sent) == 1


async def test_two_workers_with_the_same_hint_send_once(pool: Pool, key_ring: KeyRing) -> None:
    first, second = make_world("sms-tx", pool, key_ring), make_world("sms-tx", pool, key_ring)
    seeded = [await first.seeder.delivery() for _ in range(20)]
    await asyncio.gather(first.work(*seeded), second.work(*reversed(seeded)))
    sent = [message.key for message in (*first.sender.sent, *second.sender.sent)]
    assert sorted(sent) == sorted(each.key for each in seeded)


async def test_leased_to_another_is_published_again_for_the_end_of_the_lease(world: World) -> None:
    lease_until = datetime.now(UTC) + timedelta(seconds=25)
    seeded = await world.seeder.delivery(
        columns={"status": "SENDING", "claim_id": new_id(), "lease_until": lease_until}
    )
    await world.work(seeded)
    assert world.sender.sent == []
    assert [hint.not_before for hint in world.hints(60)] == [lease_until]


async def test_waiting_in_a_tier_is_published_again_and_never_sent(world: World) -> None:
    at = datetime.now(UTC) + timedelta(seconds=40)
    seeded = await world.seeder.delivery(columns={"attempt": 1, "next_attempt_at": at})
    await world.work(seeded)
    assert world.sender.sent == []
    (hint,) = world.hints(60)
    assert (hint.not_before, hint.attempt) == (at, 1)
    record = world.producer.on("sms-tx-retry-1m")[0]
    assert record.key == b"user-1"
    assert ("traceparent", b"00-trace") in record.headers


async def test_retry_recorded_but_not_published_comes_again_by_the_old_hint(world: World) -> None:
    at = datetime.now(UTC) + timedelta(seconds=5)
    seeded = await world.seeder.delivery(columns={"attempt": 1, "next_attempt_at": at})
    await world.work(Seeded(seeded.key, replace(seeded.hint, attempt=0)))
    assert world.sender.sent == []
    assert [(hint.attempt, hint.not_before) for hint in world.hints(10)] == [(1, at)]


@pytest.mark.parametrize("attempt", [0, 3], ids=["older", "newer"])
async def test_stale_hint_is_dropped(world: World, attempt: int) -> None:
    seeded = await world.seeder.delivery(columns={"attempt": 2})
    await world.work(Seeded(seeded.key, replace(seeded.hint, attempt=attempt)))
    assert world.sender.sent == []
    assert world.producer.records == []


async def test_hint_without_a_row_is_dropped(world: World) -> None:
    seeded = await world.seeder.delivery()
    ghost = Seeded(seeded.key, replace(seeded.hint, target_key=b"x" * 32))
    assert await world.work(ghost) == []
    assert world.producer.records == []


async def test_expired_is_skipped(world: World) -> None:
    seeded = await world.seeder.delivery(expires_in_sec=-1)
    await world.work(seeded)
    assert world.sender.sent == []
    assert world.statuses() == [("SKIPPED", "expired")]
    assert await world.seeder.log(seeded.key) == [("verdict", "skip")]


async def test_expired_code_is_cleared(pool: Pool, key_ring: KeyRing) -> None:
    world = make_world("otp-sms", pool, key_ring)
    seeded = await world.seeder.delivery(
        message_class=MessageClass.CRITICAL, purpose=Purpose.OTP, content={"text": "482913"}, expires_in_sec=-1
    )
    await world.work(seeded)
    assert await pool.fetchval("SELECT sealed IS NULL FROM ulak.contents") is True


@pytest.mark.parametrize(
    ("state", "columns"),
    [("CANCELLED", {}), ("DECIDED", {"cancel_requested": True})],
    ids=["notification", "delivery"],
)
async def test_cancelled_is_skipped(world: World, state: str, columns: dict[str, bool]) -> None:
    seeded = await world.seeder.delivery(state=state, columns=columns)
    await world.work(seeded)
    assert world.sender.sent == []
    assert world.statuses() == [("SKIPPED", "cancelled")]


async def test_cancel_while_sending_turns_a_retry_into_skipped(pool: Pool, key_ring: KeyRing) -> None:
    sender = ScriptedSender(outcomes=[Transient("30003", not_processed=True)])
    world = make_world("sms-tx", pool, key_ring, sender=sender)
    seeded = await world.seeder.delivery()

    async def cancel() -> None:
        await pool.execute("UPDATE ulak.deliveries SET cancel_requested = true")

    sender.during = cancel
    await world.work(seeded)
    assert world.statuses() == [("SKIPPED", "cancelled")]
    assert world.hints(10) == []


async def test_suppressed_is_skipped_but_not_in_test_mode(pool: Pool, key_ring: KeyRing) -> None:
    scripted = ScriptedSender()
    world = make_world(
        "sms-tx", pool, key_ring, sender=scripted, senders={"twilio": scripted, "simulated": SimulatedSender()}
    )
    live, test = await world.seeder.delivery(), await world.seeder.delivery(mode="test")
    await pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason) VALUES ('SMS', $1, 'opted_out')",
        live.key.target_key,
    )
    await world.work(live, test)
    assert sorted(world.statuses(), key=str) == [("SENT", None), ("SKIPPED", "suppressed")]
    assert scripted.sent == []
    assert (await world.seeder.row(test.key))["provider"] == "simulated"


async def test_team_mode_reaches_the_allow_list_alone(world: World) -> None:
    key_id = new_id()
    allowed, other = (
        await world.seeder.delivery(mode="team"),
        await world.seeder.delivery(mode="team", address="+905329999999"),
    )
    pool = world.seeder.pool
    await pool.execute("INSERT INTO ulak.applications (name) VALUES ('shop')")
    await pool.execute(
        """INSERT INTO ulak.api_keys (id, application_id, name, secret_hash, kind, scopes, allow_list)
           VALUES ($1, 1, 'team', '\\x00', 'team', '{notifications}', $2)""",
        key_id,
        [allowed.key.target_key],
    )
    await pool.execute("UPDATE ulak.notifications SET api_key_id = $1", key_id)
    await world.work(allowed, other)
    assert [message.key for message in world.sender.sent] == [allowed.key]
    assert ("SKIPPED", "not_on_allow_list") in world.statuses()


async def test_consent_withdrawn_after_fan_out_C5(pool: Pool, key_ring: KeyRing) -> None:
    world = make_world("push-bulk", pool, key_ring, sender=ScriptedSender(provider="apns"))
    stays, left = (
        await world.seeder.delivery("PUSH", message_class=MessageClass.BULK, type_name="SALE"),
        await world.seeder.delivery("PUSH", message_class=MessageClass.BULK, type_name="SALE"),
    )
    await pool.execute(
        """INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds)
           VALUES ('SALE', 'MARKETING', 2, '{PUSH}', 3600)"""
    )
    user = await pool.fetchval("INSERT INTO ulak.recipients (external_id) VALUES ('u1') RETURNING user_id")
    await pool.execute("UPDATE ulak.notifications SET user_id = $1 WHERE id = $2", user, left.key.notification_id)
    await pool.execute(
        "INSERT INTO ulak.user_preferences (user_id, category, channel, enabled) "
        "VALUES ($1, 'MARKETING', 'PUSH', false)",
        user,
    )
    await world.work(stays, left)
    assert [message.key for message in world.sender.sent] == [stays.key]
    assert ("SKIPPED", "preference") in world.statuses()


async def test_at_most_once_claims_no_more_than_the_wire_takes(pool: Pool, key_ring: KeyRing) -> None:
    world = make_world("sms-tx", pool, key_ring, sender=ScriptedSender(concurrency=7))
    seeded = [await world.seeder.delivery() for _ in range(20)]
    await world.work(*seeded)
    assert max(world.sender.batches) <= 7
    assert len(world.sender.sent) == 20


async def test_stop_before_the_claim_hands_the_hints_back(world: World) -> None:
    seeded = await world.seeder.delivery()
    world.stopping[0] = True
    await world.work(seeded)
    assert world.sender.sent == []
    assert (await world.seeder.row(seeded.key))["status"] == "PENDING"
    assert [hint.attempt for hint in world.hints()] == [0]


async def test_stop_after_the_claim_gives_it_back_uncounted_G1(pool: Pool, key_ring: KeyRing) -> None:
    sender = ScriptedSender(gate=asyncio.Event())
    world = make_world("sms-tx", pool, key_ring, sender=sender)
    seeded = await world.seeder.delivery()
    working = asyncio.create_task(world.work(seeded))
    await sender.entered.wait()
    assert (await world.seeder.row(seeded.key))["status"] == "SENDING"
    assert await world.seeder.leases() == 1
    world.stopping[0] = True
    assert sender.gate is not None
    sender.gate.set()
    await working
    row = await world.seeder.row(seeded.key)
    assert (row["status"], row["attempt"]) == ("PENDING", 0)
    assert await world.seeder.leases() == 0
    assert [(hint.attempt, hint.not_before) for hint in world.hints()] == [(0, None)]


async def test_cancelled_handler_still_records_what_the_provider_said(pool: Pool, key_ring: KeyRing) -> None:
    world = make_world("sms-tx", pool, key_ring)
    seeded = await world.seeder.delivery()
    world.producer.stall()
    working = asyncio.create_task(world.work(seeded))

    async def sent() -> bool:
        return bool((await world.seeder.row(seeded.key))["status"] == "SENT")

    await until(sent)
    working.cancel()
    world.producer.resume()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert (await world.seeder.row(seeded.key))["status"] == "SENT"


async def test_provider_not_configured_waits_without_losing_or_counting(pool: Pool, key_ring: KeyRing) -> None:
    world = make_world("push-tx", pool, key_ring, senders={}, order=first_to_last("apns"))
    seeded = await world.seeder.delivery("PUSH")
    assert await world.work(seeded) == []
    row = await world.seeder.row(seeded.key)
    assert (row["status"], row["attempt"]) == ("PENDING", 0)
    assert [hint.attempt for hint in world.hints(10)] == [0]


async def test_unknown_key_waits_and_a_broken_seal_fails(pool: Pool, key_ring: KeyRing) -> None:
    world = make_world("sms-tx", pool, key_ring)
    other = KeyRing(active="k2", keys={"k2": b"z" * 32}, lookup_key=key_ring.lookup_key)
    rotated = await Seeder(pool, other).delivery()
    broken = await world.seeder.delivery()
    await pool.execute(
        "UPDATE ulak.contents SET sealed = sealed || '\\x00' WHERE notification_id = $1", broken.key.notification_id
    )
    assert await world.work(rotated, broken) == [(1, "unsealable")]
    assert (await world.seeder.row(rotated.key))["status"] == "PENDING"
    assert len(world.hints(10)) == 1
    assert world.statuses() == [("FAILED", "unsealable")]


async def test_one_message_twice_in_a_batch_is_sent_once(world: World) -> None:
    seeded = await world.seeder.delivery()
    await world.work(seeded, seeded)
    assert len(world.sender.sent) == 1


async def test_bulk_lane_logs_only_what_differs_from_success(pool: Pool, key_ring: KeyRing) -> None:
    world = make_world("sms-bulk", pool, key_ring, sender=ScriptedSender(outcomes=[Permanent("21617")]))
    failed = await world.seeder.delivery(message_class=MessageClass.BULK)
    fine = await world.seeder.delivery(message_class=MessageClass.BULK)
    await world.work(failed)
    await world.work(fine)
    assert await world.seeder.log(failed.key) == [("attempt", "permanent")]
    assert await world.seeder.log(fine.key) == []


async def test_two_targets_of_one_notification_are_two_deliveries(pool: Pool, key_ring: KeyRing) -> None:
    world = make_world("push-tx", pool, key_ring, sender=ScriptedSender(provider="apns"))
    first = await world.seeder.delivery("PUSH")
    await pool.execute(
        """INSERT INTO ulak.deliveries
           SELECT notification_id, channel, '\\xabcd', address_sealed, platform, app_id, status, reason, message_class,
                  promise, mode, attempt, next_attempt_at, claim_id, lease_until, cancel_requested, provider,
                  provider_message_id, last_error, send_until, expires_at, campaign_id, chunk, created_at, updated_at
             FROM ulak.deliveries"""
    )
    await world.work(first)
    found = await pool.fetch("SELECT status FROM ulak.deliveries ORDER BY status")
    assert [record[0] for record in found] == ["PENDING", "SENT"]


async def test_lease_covers_the_deadline_and_its_margin(pool: Pool, key_ring: KeyRing) -> None:
    sender = ScriptedSender(gate=asyncio.Event())
    world = make_world("otp-sms", pool, key_ring, sender=sender)
    seeded = await world.seeder.delivery(message_class=MessageClass.CRITICAL, promise=Promise.AT_LEAST_ONCE)
    working = asyncio.create_task(world.work(seeded))
    await sender.entered.wait()
    row = await world.seeder.row(seeded.key)
    assert row["lease_until"] - row["updated_at"] == timedelta(seconds=10)
    assert sender.gate is not None
    sender.gate.set()
    await working


async def test_no_send_starts_in_a_lease_too_short_for_it(pool: Pool, key_ring: KeyRing) -> None:
    lane = replace(DEFAULT_CHANNELS.lane("sms-tx"), send_deadline_sec=5.0, lease_margin_sec=0.5)
    world = make_world("sms-tx", pool, key_ring, lane=lane)
    seeded = await world.seeder.delivery()
    await world.work(seeded)
    assert world.sender.sent == []
    assert (await world.seeder.row(seeded.key))["attempt"] == 0
