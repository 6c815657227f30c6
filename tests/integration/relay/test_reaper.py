"""Leases that ran out, for both promises, with what they owe in the outbox."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from services.relay.reaper import Reaper
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, NotificationState
from shared.core.reference import DeliveryKey
from shared.core.sealing import Purpose
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS, Promise
from shared.wire.message import DeliveryHint, decode
from tests.integration.relay.rows import add_claimed, add_delivery, add_request, count, delivery, kept, outbox, retold

pytestmark = pytest.mark.postgres

SMS: dict[str, Any] = {"channel": "SMS", "promise": Promise.AT_MOST_ONCE, "provider": "twilio"}


def make(pool: Pool) -> Reaper:
    return Reaper(pool, DEFAULT_CHANNELS, grace_sec=0.0, service_version="1.0", clock=lambda: datetime.now(UTC))


async def park(pool: Pool, key: DeliveryKey, kind: str, *, attempt: int) -> None:
    await pool.execute(
        "INSERT INTO ulak.parked_receipts VALUES ($1, $2, $3, $4, $5, $6, 'twilio', '', now())",
        new_id(),
        key.notification_id,
        key.channel,
        key.target_key,
        attempt,
        kind,
    )


async def test_an_at_least_once_delivery_is_sent_again(pool: Pool) -> None:
    key, _ = await add_claimed(pool, attempt=1)

    await make(pool).round()

    row = await delivery(pool, key)
    assert (row["status"], row["attempt"], row["claim_id"], row["lease_until"]) == ("PENDING", 2, None, None)
    assert await count(pool, "leases") == 0
    (owed,) = await outbox(pool)
    hint = decode(DeliveryHint, owed["payload"])
    assert (owed["topic"], owed["key"], hint.attempt, hint.target_key) == ("push-tx", b"42", 2, key.target_key)
    log = await pool.fetchrow("SELECT * FROM ulak.delivery_log")
    assert log is not None
    assert (log["kind"], log["result"], log["attempt"]) == ("attempt", "ambiguous", 2)


async def test_an_at_most_once_delivery_is_unknown_and_never_sent_again(pool: Pool) -> None:
    key, _ = await add_claimed(pool, **SMS)

    await make(pool).round()

    row = await delivery(pool, key)
    assert (row["status"], row["reason"], row["attempt"]) == ("UNKNOWN", "ambiguous", 1)
    assert await count(pool, "unknown_open") == 1
    (owed,) = await outbox(pool)
    event = orjson.loads(owed["payload"])
    assert (owed["topic"], event["type"]) == ("delivery-events", "ulak.delivery.unknown.v1")
    assert event["data"]["attempt"] == 1
    assert owed["payload"] == retold(row)


async def test_a_parked_receipt_settles_what_would_be_unknown(pool: Pool) -> None:
    """It speaks of the very attempt that was lost: the provider had it, and it did not arrive."""
    key, _ = await add_claimed(pool, **SMS)
    await park(pool, key, "undelivered", attempt=1)

    await make(pool).round()

    row = await delivery(pool, key)
    assert (row["status"], row["reason"]) == ("FAILED", "undelivered")
    assert await count(pool, "unknown_open") == 0
    assert await count(pool, "parked_receipts") == 0


async def test_cancelled_and_expired_meanwhile_are_skipped(pool: Pool) -> None:
    flagged, _ = await add_claimed(pool, cancel_requested=True)
    cancelled, _ = await add_claimed(pool, notification={"state": NotificationState.CANCELLED})
    expired, _ = await add_claimed(pool, expires_at=datetime.now(UTC) - timedelta(seconds=1))

    await make(pool).round()

    for key, reason in ((flagged, "cancelled"), (cancelled, "cancelled"), (expired, "expired")):
        row = await delivery(pool, key)
        assert (row["status"], row["reason"]) == ("SKIPPED", reason)
    topics = {row["topic"] for row in await outbox(pool)}
    assert topics == {"delivery-events"}


async def test_a_message_that_ends_its_worker_time_and_again_is_dead_lettered(pool: Pool) -> None:
    key, _ = await add_claimed(pool, attempt=7)

    await make(pool).round()

    row = await delivery(pool, key)
    assert (row["status"], row["reason"], row["attempt"]) == ("FAILED", "exhausted", 8)
    owed = {row["topic"]: row for row in await outbox(pool)}
    assert set(owed) == {"delivery-events", "push-tx-dlq"}
    assert owed["push-tx-dlq"]["headers"]["ulak-dlq-error-class"] == "exhausted"
    letter = await pool.fetchrow("SELECT * FROM ulak.dead_letters")
    assert letter is not None
    assert (letter["topic"], letter["notification_id"]) == ("push-tx-dlq", key.notification_id)


@pytest.mark.parametrize(
    ("changed", "needed"),
    [
        pytest.param({"cancel_requested": True}, False, id="cancelled"),
        pytest.param({"expires_at": datetime.now(UTC) - timedelta(seconds=1)}, False, id="expired"),
        pytest.param({"attempt": 7}, True, id="exhausted"),
        pytest.param({"promise": Promise.AT_MOST_ONCE}, True, id="unknown"),
        pytest.param({}, True, id="sent-again"),
    ],
)
async def test_a_request_goes_with_its_last_recipient(pool: Pool, changed: dict[str, Any], needed: bool) -> None:
    key, _ = await add_claimed(pool, channel="EMAIL", provider="smtp", **changed)
    await add_delivery(pool, key.notification_id, channel="EMAIL", target_key=b"\x08" * 32, status="SENT")
    await add_request(pool, key.notification_id)

    await make(pool).round()

    assert await kept(pool, key.notification_id) is needed


@pytest.mark.parametrize(("purpose", "hints"), [(Purpose.EMAIL, 1), (Purpose.CONTENT, 3)])
@pytest.mark.parametrize(("attempt", "topic"), [(0, "email-tx"), (7, "email-tx-dlq")], ids=["again", "exhausted"])
async def test_one_hint_stands_for_a_message(
    pool: Pool, purpose: Purpose, hints: int, attempt: int, topic: str
) -> None:
    """So does one dead letter; what becomes of each recipient is told and listed for each."""
    changed: dict[str, Any] = {"channel": "EMAIL", "provider": "smtp", "attempt": attempt}
    key, claim = await add_claimed(pool, **changed)
    for target in (b"\x08", b"\x09"):
        claimed = {"status": DeliveryStatus.SENDING, "claim_id": claim, "target_key": target * 32}
        await add_delivery(pool, key.notification_id, **(changed | claimed))
    await add_request(pool, key.notification_id, purpose=purpose)

    await make(pool).round()

    owed = Counter(row["topic"] for row in await outbox(pool))
    assert owed.pop(topic) == hints
    assert owed == ({"delivery-events": 3} if attempt else {})
    assert await count(pool, "dead_letters") == (3 if attempt else 0)


async def test_a_lease_that_still_runs_is_left_alone(pool: Pool) -> None:
    key, _ = await add_claimed(pool, lease_until=datetime.now(UTC) + timedelta(minutes=1))

    await make(pool).round()

    assert (await delivery(pool, key))["status"] == "SENDING"
    assert await count(pool, "leases") == 1


async def test_a_lease_without_deliveries_is_removed(pool: Pool) -> None:
    key, _ = await add_claimed(pool, status="SENT", claim_id=None)

    await make(pool).round()

    assert (await delivery(pool, key))["status"] == "SENT"
    assert await count(pool, "leases") == 0
    assert await outbox(pool) == []


async def test_another_workers_claim_on_the_row_is_not_touched(pool: Pool) -> None:
    key, _ = await add_claimed(pool)
    await pool.execute("UPDATE ulak.deliveries SET claim_id = $1", new_id())

    await make(pool).round()

    assert (await delivery(pool, key))["status"] == "SENDING"


async def test_a_worker_that_records_at_this_moment_wins_without_a_deadlock(pool: Pool) -> None:
    """It holds the row and wants the lease; the reaper holds the lease and does not wait for the row."""
    key, claim = await add_claimed(pool)
    async with pool.acquire() as worker, worker.transaction():
        await worker.execute("UPDATE ulak.deliveries SET status = 'SENT', claim_id = NULL WHERE claim_id = $1", claim)
        await asyncio.wait_for(make(pool).round(), 60)
        await worker.execute("DELETE FROM ulak.leases WHERE claim_id = $1", claim)

    assert (await delivery(pool, key))["status"] == "SENT"
    assert await outbox(pool) == []


async def test_two_reapers_share_the_leases(pool: Pool) -> None:
    keys = [(await add_claimed(pool))[0] for _ in range(60)]

    await asyncio.gather(*(make(pool).round() for _ in range(3)))
    await make(pool).round()

    assert [(await delivery(pool, key))["attempt"] for key in keys] == [1] * 60
    assert len(await outbox(pool)) == 60, "one hint each"
