"""What time makes superfluous goes; what is still needed stays."""

import asyncio
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from services.relay.settings import RelaySettings
from services.relay.upkeep import PartitionsAhead, Upkeep
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.postgres.pool import Pool
from tests.integration.relay.rows import (
    add_delivery,
    add_notification,
    add_request,
    count,
    delivery,
    kept,
    outbox,
    retold,
)

pytestmark = pytest.mark.postgres

NOW = datetime.now(UTC)
PAST, FUTURE = NOW - timedelta(days=30), NOW + timedelta(days=1)


def make(pool: Pool) -> Upkeep:
    return Upkeep(pool, RelaySettings(), clock=lambda: datetime.now(UTC))


async def test_dedup_rows_go_when_their_time_is_over(pool: Pool) -> None:
    for number, until in enumerate([PAST, FUTURE, PAST]):
        await pool.execute(
            "INSERT INTO ulak.notification_dedup VALUES (1, $1, 'T', $2, 'x', $3)", f"event-{number}", new_id(), until
        )

    await make(pool).round()

    assert [row["key"] for row in await pool.fetch("SELECT key FROM ulak.notification_dedup")] == ["event-1"]


async def test_content_windows_go_when_their_time_is_over(pool: Pool) -> None:
    for number, until in enumerate([PAST, FUTURE, PAST]):
        await pool.execute(
            "INSERT INTO ulak.content_window VALUES ('ORDER_SHIPPED', 7, $1, $2, $3)",
            f"order-{number}",
            new_id(),
            until,
        )

    await make(pool).round()

    assert [row["business_key"] for row in await pool.fetch("SELECT * FROM ulak.content_window")] == ["order-1"]


async def test_devices_that_nobody_has_seen_for_long_go(pool: Pool) -> None:
    user_id = await pool.fetchval("INSERT INTO ulak.recipients (external_id) VALUES ('7') RETURNING user_id")
    for key, days in ((b"seen", 269), (b"unseen", 271), (b"unseen and silent", 300)):
        await pool.execute(
            "INSERT INTO ulak.devices (user_id, token_key, token_sealed, platform, active, last_seen) "
            "VALUES ($1, $2, '', 'IOS', $3 < 300, now() - $3 * interval '1 day')",
            user_id,
            key,
            days,
        )
    await make(pool).round()
    assert [row[0] for row in await pool.fetch("SELECT token_key FROM ulak.devices")] == [b"seen"]


async def test_old_imports_go_with_their_bad_lines(pool: Pool) -> None:
    for number, (state, days) in enumerate([("FINISHED", 91), ("RUNNING", 91), ("FINISHED", 89)]):
        run = new_id()
        await pool.execute(
            "INSERT INTO ulak.import_runs (id, kind, application_id, state, started_by, updated_at)"
            " VALUES ($1, 'recipients', $2, $3, 'test', now() - $4 * interval '1 day')",
            run,
            number,
            state,
            days,
        )
        await pool.execute(
            "INSERT INTO ulak.import_errors SELECT $1, line, 'invalid', '', '' FROM generate_series(1, 700) AS line",
            run,
        )
    upkeep = make(pool)
    while await upkeep.round():
        pass
    assert [row["application_id"] for row in await pool.fetch("SELECT * FROM ulak.import_runs")] == [2]
    assert await pool.fetchval("SELECT count(*) FROM ulak.import_errors") == 700


async def test_old_entries_leave_the_inbox_with_their_count(pool: Pool) -> None:
    for days in (89, 91):
        await pool.execute(
            "INSERT INTO ulak.inbox (user_id, created_at, notification_id, type, content_sealed, locale)"
            " VALUES (7, $1, $2, 'ORDER_PLACED', '', 'tr')",
            NOW - timedelta(days=days),
            new_id(),
        )
    await pool.execute("INSERT INTO ulak.inbox_counters VALUES (7, 2)")
    await make(pool).round()
    assert await pool.fetchval("SELECT count(*) FROM ulak.inbox") == 1
    assert await pool.fetchval("SELECT unread FROM ulak.inbox_counters") == 1


async def test_old_switches_of_providers_go(pool: Pool) -> None:
    for age in (timedelta(days=91), timedelta(days=89)):
        await pool.execute(
            "INSERT INTO ulak.provider_events (at, account, from_state, to_state, reason)"
            " VALUES ($1, 'twilio', 'closed', 'open', '')",
            NOW - age,
        )
    await make(pool).round()
    assert await count(pool, "provider_events") == 1


async def test_old_dead_letters_go_unless_they_are_open(pool: Pool) -> None:
    for state, age in (("open", 400), ("replayed", 91), ("closed", 89)):
        await pool.execute(
            "INSERT INTO ulak.dead_letters (topic, fingerprint, error_class, state, first_seen, last_seen)"
            " VALUES ('email-tx-dlq', $1, 'exhausted', $2, $3, $3)",
            state.encode(),
            state,
            NOW - timedelta(days=age),
        )
    await make(pool).round()
    assert {row["state"] for row in await pool.fetch("SELECT state FROM ulak.dead_letters")} == {"open", "closed"}


async def test_applied_and_orphaned_receipts_go(pool: Pool) -> None:
    for number, at in enumerate([PAST, NOW]):
        await pool.execute("INSERT INTO ulak.applied_receipts VALUES ('twilio', $1, $2)", bytes([number]), at)
        await pool.execute(
            "INSERT INTO ulak.parked_receipts VALUES ($1, $2, 'SMS', 'x', 1, 'undelivered', 'twilio', '', $3)",
            new_id(),
            new_id(),
            at,
        )

    await make(pool).round()

    assert await count(pool, "applied_receipts") == 1
    assert await count(pool, "parked_receipts") == 1


async def test_unknown_is_closed_after_three_days_and_told(pool: Pool) -> None:
    notification = await add_notification(pool, state=NotificationState.DECIDED)
    old = await add_delivery(
        pool, notification, channel="SMS", status=DeliveryStatus.UNKNOWN, reason=Reason.AMBIGUOUS, attempt=1
    )
    young = await add_delivery(
        pool, notification, channel="SMS", target_key=b"\x08" * 32, status=DeliveryStatus.UNKNOWN, attempt=1
    )
    ambiguous = retold(await delivery(pool, old))
    for key, since in ((old, NOW - timedelta(hours=73)), (young, NOW - timedelta(hours=71))):
        await pool.execute(
            "INSERT INTO ulak.unknown_open VALUES ($1, $2, $3, $4)",
            key.notification_id,
            key.channel,
            key.target_key,
            since,
        )

    await make(pool).round()

    assert [(await delivery(pool, key))["reason"] for key in (old, young)] == ["closed", None]
    assert (await delivery(pool, old))["status"] == "UNKNOWN"
    assert await count(pool, "unknown_open") == 1
    (owed,) = await outbox(pool)
    event = orjson.loads(owed["payload"])
    assert (event["data"]["status"], event["data"]["reason"]) == ("UNKNOWN", "closed")
    assert owed["payload"] == retold(await delivery(pool, old))
    assert event["id"] != orjson.loads(ambiguous)["id"], "not the event that told of it first"


async def test_a_request_goes_when_nobody_is_waited_for_any_longer(pool: Pool) -> None:
    notification = await add_notification(pool, state=NotificationState.DECIDED)
    keys = [
        await add_delivery(pool, notification, channel="EMAIL", target_key=target * 32, status=DeliveryStatus.UNKNOWN)
        for target in (b"\x07", b"\x08")
    ]
    await add_request(pool, notification)
    still_needed = []
    for key in keys:
        await pool.execute(
            "INSERT INTO ulak.unknown_open VALUES ($1, $2, $3, $4)", notification, key.channel, key.target_key, PAST
        )
        await make(pool).round()
        still_needed.append(await kept(pool, notification))

    assert still_needed == [True, False]


async def test_codes_that_are_over_lose_their_text_and_their_place(pool: Pool) -> None:
    over, current = new_id(), new_id()
    for number, (identifier, expires_at) in enumerate([(over, NOW - timedelta(seconds=1)), (current, FUTURE)]):
        await pool.execute(
            "INSERT INTO ulak.otp_current VALUES ($1, 'login', $2, $3)", bytes([number]), identifier, expires_at
        )
        await pool.execute(
            "INSERT INTO ulak.contents (notification_id, channel, sealed, purpose, locale, template_version) "
            "VALUES ($1, 'SMS', 'x', 'otp-v1', 'tr', 1)",
            identifier,
        )

    await make(pool).round()

    kept = await pool.fetch("SELECT notification_id FROM ulak.contents WHERE sealed IS NOT NULL")
    assert [row["notification_id"] for row in kept] == [current]
    assert await count(pool, "otp_current") == 1


async def test_direct_dispatch_is_called_off_once_the_code_is_taken_up(pool: Pool) -> None:
    waiting, done, young = [await add_notification(pool) for _ in range(3)]
    await add_delivery(pool, waiting, channel="SMS")
    await add_delivery(pool, done, channel="SMS", status=DeliveryStatus.SENT)
    await add_delivery(pool, young, channel="SMS", status=DeliveryStatus.SENT)
    for identifier, due_at in ((waiting, PAST), (done, PAST), (young, FUTURE)):
        await pool.execute("INSERT INTO ulak.otp_due VALUES ($1, $2)", identifier, due_at)

    await make(pool).round()

    left = await pool.fetch("SELECT notification_id FROM ulak.otp_due ORDER BY 1")
    assert {row["notification_id"] for row in left} == {waiting, young}


async def test_two_relays_do_not_get_in_each_others_way(pool: Pool) -> None:
    for number in range(3000):
        await pool.execute(
            "INSERT INTO ulak.applied_receipts VALUES ('twilio', $1, $2)", number.to_bytes(4, "big"), PAST
        )

    async def run() -> None:
        upkeep = make(pool)
        while await upkeep.round():
            pass

    await asyncio.gather(run(), run())
    await run()

    assert await count(pool, "applied_receipts") == 0


async def test_partitions_are_there_ahead(pool: Pool) -> None:
    in_two_weeks = datetime.now(UTC) + timedelta(days=14)

    await PartitionsAhead(pool, days=1, clock=lambda: in_two_weeks).round()

    name = f"ulak.notifications_{in_two_weeks:%Y%m%d}"
    assert await pool.fetchval("SELECT to_regclass($1) IS NOT NULL", name)
