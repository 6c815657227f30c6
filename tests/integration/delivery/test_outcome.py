"""What each outcome of a send leads to: a row, a hint, an event, a dead letter; and receipts that came before it."""

from dataclasses import replace

import pytest

from shared.core.identifier import new_id
from shared.core.outcome import (
    Ambiguous,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    TargetGone,
    Throttled,
    Transient,
)
from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool
from shared.wire.channel import Promise
from tests.integration.delivery.world import ScriptedSender, Seeded, World, make_world

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("promise", "outcome", "status", "reason", "attempt", "tier"),
    [
        pytest.param("AT_MOST_ONCE", Ambiguous("lost"), "UNKNOWN", "ambiguous", 1, None, id="ambiguous-at-most-once"),
        pytest.param("AT_LEAST_ONCE", Ambiguous("lost"), "PENDING", None, 1, 10, id="ambiguous-at-least-once"),
        pytest.param("AT_MOST_ONCE", Transient("503"), "UNKNOWN", "ambiguous", 1, None, id="5xx-at-most-once"),
        pytest.param(
            "AT_MOST_ONCE", Transient("30003", not_processed=True), "PENDING", None, 1, 10, id="not-processed-S7"
        ),
        pytest.param("AT_LEAST_ONCE", Transient("503"), "PENDING", None, 1, 10, id="transient"),
        pytest.param(
            "AT_MOST_ONCE", Throttled(Scope.ACCOUNT, "429", 30.0), "PENDING", None, 0, 60, id="throttled-no-attempt"
        ),
        pytest.param("AT_MOST_ONCE", ProviderDown("401"), "PENDING", None, 0, 10, id="down-burns-no-message"),
        pytest.param("AT_MOST_ONCE", Permanent("21617"), "FAILED", "permanent", 1, None, id="permanent"),
        pytest.param("AT_MOST_ONCE", TargetGone("21610"), "FAILED", "target_gone", 1, None, id="gone"),
    ],
)
async def test_outcomes(
    world: World, promise: str, outcome: Outcome, status: str, reason: str | None, attempt: int, tier: int | None
) -> None:
    seeded = await world.seeder.delivery(promise=Promise(promise))
    world.sender.outcomes = [outcome]
    rejections = await world.work(seeded)
    row = await world.seeder.row(seeded.key)
    assert (row["status"], row["reason"], row["attempt"]) == (status, reason, attempt)
    assert await world.seeder.leases() == 0
    if tier is None:
        assert world.statuses() == [(status, reason)]
    else:
        (hint,) = world.hints(tier)
        assert (hint.attempt, hint.not_before) == (attempt, row["next_attempt_at"])
        assert world.events() == []
    assert rejections == ([(0, "permanent")] if isinstance(outcome, Permanent) else [])


async def test_unknown_is_open_for_the_closing_job(world: World) -> None:
    seeded = await world.seeder.delivery()
    world.sender.outcomes = [Ambiguous("lost")]
    await world.work(seeded)
    found = await world.seeder.pool.fetch("SELECT notification_id FROM ulak.unknown_open")
    assert [record[0] for record in found] == [seeded.key.notification_id]


async def test_gone_target_is_suppressed_or_its_device_switched_off(
    pool: Pool, key_ring: KeyRing, world: World
) -> None:
    sms = await world.seeder.delivery()
    world.sender.outcomes = [TargetGone("21610")]
    await world.work(sms)
    assert await pool.fetchval("SELECT address_key FROM ulak.suppressions WHERE channel = 'SMS'") == sms.key.target_key

    push = make_world("push-tx", pool, key_ring, sender=ScriptedSender("apns", outcomes=[TargetGone("410")]))
    device = await push.seeder.delivery("PUSH")
    user = await pool.fetchval("INSERT INTO ulak.recipients (external_id) VALUES ('u1') RETURNING user_id")
    await pool.execute(
        "INSERT INTO ulak.devices (user_id, token_key, token_sealed, platform) VALUES ($1, $2, '', 'IOS')",
        user,
        device.key.target_key,
    )
    await push.work(device)
    assert await pool.fetchval("SELECT active FROM ulak.devices") is False
    assert await pool.fetchval("SELECT count(*) FROM ulak.suppressions WHERE channel = 'PUSH'") == 0


async def test_exhausted_goes_to_the_dead_letters_and_again_when_redelivered(mail: World) -> None:
    last = mail.lane.max_attempts - 1
    seeded = await mail.seeder.delivery("EMAIL", columns={"attempt": last})
    mail.sender.outcomes = [Transient("451")]
    assert await mail.work(seeded) == [(0, "exhausted")]
    assert mail.statuses() == [("FAILED", "exhausted")]
    letter = await mail.seeder.pool.fetchrow("SELECT topic, error_class, state FROM ulak.dead_letters")
    assert letter is not None
    assert tuple(letter) == ("email-tx-dlq", "exhausted", "open")
    assert await mail.seeder.pool.fetchval("SELECT sealed IS NOT NULL FROM ulak.contents") is True
    assert await mail.work(seeded) == [(0, "exhausted")]
    assert await mail.seeder.pool.fetchval("SELECT count(*) FROM ulak.dead_letters") == 1


async def test_retry_past_the_end_of_life_is_expired(world: World) -> None:
    seeded = await world.seeder.delivery(expires_in_sec=5)
    world.sender.outcomes = [Transient("30003", not_processed=True)]
    assert await world.work(seeded) == []
    assert world.statuses() == [("SKIPPED", "expired")]


async def test_greylisting_waits_its_tiers_and_then_arrives_E6(mail: World) -> None:
    seeded = await mail.seeder.delivery("EMAIL")
    mail.sender.outcomes = [Transient("rcpt 451 4.7.1", not_processed=True)] * 2
    tiers = []
    for attempt in range(3):
        await mail.seeder.pool.execute("UPDATE ulak.deliveries SET next_attempt_at = now()")
        await mail.work(Seeded(seeded.key, replace(seeded.hint, attempt=attempt)))
        tiers.append(len(mail.hints(10)) + 10 * len(mail.hints(60)))
    assert tiers == [1, 11, 11]
    assert mail.statuses() == [("SENT", None)]
    assert await mail.seeder.pool.fetchval("SELECT count(*) FROM ulak.suppressions") == 0


@pytest.mark.parametrize(
    ("kind", "attempt", "status", "reason"),
    [
        ("delivered", 1, "DELIVERED", None),
        ("undelivered", 1, "FAILED", "undelivered"),
        ("undelivered", 0, "SENT", None),
        ("progress", 1, "SENT", None),
    ],
)
async def test_parked_receipt_is_applied_with_the_outcome(
    world: World, kind: str, attempt: int, status: str, reason: str | None
) -> None:
    seeded = await world.seeder.delivery()
    await world.seeder.pool.execute(
        """INSERT INTO ulak.parked_receipts
           (id, notification_id, channel, target_key, attempt, kind, provider, received_at)
           VALUES ($1, $2, 'SMS', $3, $4, $5, 'twilio', now())""",
        new_id(),
        seeded.key.notification_id,
        seeded.key.target_key,
        attempt,
        kind,
    )
    await world.work(seeded)
    row = await world.seeder.row(seeded.key)
    assert (row["status"], row["reason"]) == (status, reason)
    assert world.statuses() == [(status, reason)]
    assert await world.seeder.pool.fetchval("SELECT count(*) FROM ulak.parked_receipts") == 0
    assert ("receipt", kind) in await world.seeder.log(seeded.key)


async def test_delivered_by_a_receipt_before_the_outcome_stays_delivered(pool: Pool, key_ring: KeyRing) -> None:
    sender = ScriptedSender()
    world = make_world("sms-tx", pool, key_ring, sender=sender)
    seeded = await world.seeder.delivery()

    async def receipt() -> None:
        await pool.execute("UPDATE ulak.deliveries SET status = 'DELIVERED', claim_id = NULL, attempt = 1")

    sender.during = receipt
    await world.work(seeded)
    assert (await world.seeder.row(seeded.key))["status"] == "DELIVERED"
    assert world.statuses() == [("DELIVERED", None)]
    assert await world.seeder.leases() == 0
