"""`POST /internal/v1/notifications/cancel`: counted first, then stopped, page by page."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from services.ingest.bulk_cancel import BulkCanceller
from services.ingest.bulk_cancel_model import BulkCancelRequest
from services.ingest.caller import Caller
from services.ingest.cancel import Canceller
from services.ingest.fast_publish import FastPublisher
from services.ingest.gate import Call
from shared.core.identifier import API_KEY, new_id, public_id
from shared.kafka.memory import InMemoryProducer
from shared.postgres.pool import Pool
from tests.integration.ingest.conftest import Ingest, add_key
from tests.integration.relay.rows import add_delivery, add_notification

PATH = "/internal/v1/notifications/cancel"
HOUR_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


async def seed(ingest: Ingest, *statuses: str, **changed: Any) -> UUID:
    """A decided notification of the caller's application, with a delivery of each status."""
    application = await ingest.pool.fetchval("SELECT application_id FROM ulak.api_keys LIMIT 1")
    identifier = await add_notification(
        ingest.pool, **{"application_id": application, "state": "DECIDED", "type": "SALE"} | changed
    )
    for number, status in enumerate(statuses):
        await add_delivery(ingest.pool, identifier, target_key=bytes([number]) * 32, status=status)
    return identifier


async def states(ingest: Ingest) -> dict[UUID, str]:
    return {row["id"]: row["state"] for row in await ingest.pool.fetch("SELECT id, state FROM ulak.notifications")}


def wanted(**changed: Any) -> dict[str, Any]:
    return {"filter": {"since": HOUR_AGO, "type": "SALE"} | changed}


async def test_a_dry_run_counts_by_state_and_reason_and_changes_nothing(ingest: Ingest) -> None:
    await seed(ingest, "PENDING", "PENDING", "SENDING", "SENT")
    await seed(ingest, state="ACCEPTED")
    await seed(ingest, "PENDING", type="OTHER")
    response = await ingest.client.post(PATH, json=wanted())
    assert (response.status_code, response.json()) == (
        200,
        {
            "dryRun": True,
            "notifications": 2,
            "cancelled": 3,
            "inFlight": 1,
            "alreadyOut": 1,
            "standing": [
                {"state": "ACCEPTED", "count": 1},
                {"state": "PENDING", "count": 2},
                {"state": "SENDING", "count": 1},
                {"state": "SENT", "count": 1},
            ],
        },
    )
    assert set((await states(ingest)).values()) == {"DECIDED", "ACCEPTED"}
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.audit_log WHERE kind = 'notification'") == 0


async def test_for_real_it_stops_what_was_counted_and_tells_of_it(ingest: Ingest) -> None:
    sale, accepted = await seed(ingest, "PENDING", "SENDING", "SENT"), await seed(ingest, state="ACCEPTED")
    other, out = await seed(ingest, "PENDING", type="OTHER"), await seed(ingest, "SENT")
    counted = (await ingest.client.post(PATH, json=wanted())).json()
    done = (await ingest.client.post(PATH, json=wanted() | {"dryRun": False})).json()
    assert done == counted | {"dryRun": False}
    assert await states(ingest) == {sale: "CANCELLED", accepted: "CANCELLED", other: "DECIDED", out: "DECIDED"}
    rows = await ingest.pool.fetch(
        "SELECT status, reason, cancel_requested FROM ulak.deliveries WHERE notification_id = $1 ORDER BY target_key",
        sale,
    )
    assert [tuple(row) for row in rows] == [
        ("SKIPPED", "cancelled", True),
        ("SENDING", None, True),
        ("SENT", None, False),
    ]
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.outbox WHERE topic = 'delivery-events'") <= 1
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.delivery_log WHERE kind = 'operator'") == 1


async def test_who_did_it_is_in_the_audit_log_before_and_after(ingest: Ingest) -> None:
    await seed(ingest, "PENDING")
    await ingest.client.post(PATH, json=wanted() | {"dryRun": False})
    lines = await ingest.pool.fetch(
        "SELECT action, actor, key, detail FROM ulak.audit_log WHERE kind = 'notification' ORDER BY id"
    )
    assert [line["action"] for line in lines] == ["bulk_cancel_begun", "bulk_cancelled"]
    assert all(line["actor"].startswith("api key ") and line["key"] == "SALE" for line in lines)
    assert lines[1]["detail"]["cancelled"] == 1
    assert lines[1]["detail"]["filter"]["type"] == "SALE"


async def test_again_it_finds_nothing_left(ingest: Ingest) -> None:
    await seed(ingest, "PENDING")
    await ingest.client.post(PATH, json=wanted() | {"dryRun": False})
    again = (await ingest.client.post(PATH, json=wanted() | {"dryRun": False})).json()
    assert (again["notifications"], again["cancelled"], again["standing"]) == (0, 0, [])


async def test_by_key_by_version_and_by_time(ingest: Ingest) -> None:
    key = new_id()
    by_key, plain = await seed(ingest, "PENDING", api_key_id=key), await seed(ingest, "PENDING")
    await ingest.pool.executemany(
        "INSERT INTO ulak.contents (notification_id, channel, purpose, locale, template_version)"
        " VALUES ($1, 'PUSH', 'content-v1', 'tr', $2)",
        [(by_key, 3), (plain, 4)],
    )

    async def count(**changed: Any) -> int:
        response = await ingest.client.post(PATH, json=wanted(**changed))
        assert response.status_code == 200, response.text
        return int(response.json()["notifications"])

    assert await count() == 2
    assert await count(apiKeyId=public_id(API_KEY, key)) == 1
    assert await count(template={"channel": "PUSH", "locale": "tr", "version": 3}) == 1
    assert await count(template={"channel": "PUSH", "locale": "en", "version": 3}) == 0
    assert await count(since=(datetime.now(UTC) + timedelta(minutes=1)).isoformat()) == 0
    assert await count(until=HOUR_AGO) == 0


async def test_another_application_s_are_left_alone(ingest: Ingest) -> None:
    """Unless it is an operator's key that asks."""
    foreign = await seed(ingest, "PENDING", application_id=4711)
    secret = await add_key(ingest.pool, scopes=("notifications",))
    headers = {"authorization": f"Bearer {secret}"}
    response = await ingest.client.post(PATH, json=wanted() | {"dryRun": False}, headers=headers)
    assert (response.status_code, response.json()["notifications"]) == (200, 0)
    assert (await states(ingest))[foreign] == "DECIDED"
    await ingest.client.post(PATH, json=wanted() | {"dryRun": False})
    assert (await states(ingest))[foreign] == "CANCELLED"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "filter"),
        ({"filter": {"type": "SALE"}}, "filter.since"),
        ({"filter": {"since": HOUR_AGO, "tpye": "SALE"}}, "filter.tpye"),
        (wanted() | {"dryRun": "no"}, "dryRun"),
        (wanted() | {"cursor": "ntf_no"}, "cursor"),
        (wanted(apiKeyId="key_no"), "filter.apiKeyId"),
        ({"filter": {"since": HOUR_AGO, "template": {"channel": "PUSH", "locale": "tr", "version": 1}}}, "filter.type"),
    ],
)
async def test_what_cannot_be_meant_is_refused_by_its_field(ingest: Ingest, body: dict[str, Any], field: str) -> None:
    response = await ingest.client.post(PATH, json=body)
    assert response.status_code == 422, response.text
    assert field in response.text


def operators_call() -> Call:
    caller = Caller(new_id(), "desk", 1, "shop", b"", "live", frozenset({"all"}), None, None, None)
    return Call(caller, b"", None)


async def test_a_long_one_is_done_call_by_call_and_its_counts_add_up(pool: Pool) -> None:
    """A call whose time is over after each page; one that was killed between two is gone on with by the same call."""
    identifiers = [await add_notification(pool, state="DECIDED", type="SALE") for _ in range(5)]
    for identifier in identifiers:
        await add_delivery(pool, identifier)
    canceller = Canceller(pool, FastPublisher(InMemoryProducer(), pool), clock=lambda: datetime.now(UTC))
    minutes = iter(range(0, 10_000, 60))
    bulk = BulkCanceller(pool, canceller, clock=lambda: datetime.now(UTC), elapsed=lambda: float(next(minutes)), page=2)
    cursor, cancelled, calls = None, 0, 0
    while calls == 0 or cursor is not None:
        body = wanted() | {"dryRun": False} | ({} if cursor is None else {"cursor": cursor})
        answer = await bulk.run(BulkCancelRequest.model_validate(body), operators_call())
        cursor, cancelled, calls = answer.cursor, cancelled + answer.cancelled, calls + 1
        done = await pool.fetchval("SELECT count(*) FROM ulak.notifications WHERE state = 'CANCELLED'")
        assert done == cancelled
    assert (cancelled, calls) == (5, 3)


async def test_a_page_that_fails_leaves_no_half_of_itself(pool: Pool) -> None:
    for _ in range(3):
        await add_delivery(pool, await add_notification(pool, state="DECIDED", type="SALE"))
    await pool.execute("ALTER TABLE ulak.outbox RENAME TO hidden_outbox")  # the last thing that a page writes
    canceller = Canceller(pool, FastPublisher(InMemoryProducer(), pool), clock=lambda: datetime.now(UTC))
    bulk = BulkCanceller(pool, canceller, clock=lambda: datetime.now(UTC))
    request = BulkCancelRequest.model_validate(wanted() | {"dryRun": False})
    with pytest.raises(Exception, match="outbox"):
        await bulk.run(request, operators_call())
    assert await pool.fetchval("SELECT count(*) FROM ulak.notifications WHERE state = 'CANCELLED'") == 0
    assert await pool.fetchval("SELECT array_agg(action) FROM ulak.audit_log") == ["bulk_cancel_begun"]
    await pool.execute("ALTER TABLE ulak.hidden_outbox RENAME TO outbox")
    assert (await bulk.run(request, operators_call())).cancelled == 3
