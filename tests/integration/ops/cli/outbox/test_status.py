"""`ulak outbox status`: what waits, since when, what failed."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from shared.core.identifier import EMAIL, new_id, public_id
from shared.core.sealing import KeyRing
from shared.ledger.ask import NO_SOURCE, Entered
from shared.postgres.pool import Pool
from tests.integration.ledger.world import add_application, add_catalogue, ask, ledger, request
from tests.integration.ops.cli.outbox.conftest import Operator, add_set_aside
from tests.integration.relay.email.world import World
from tests.integration.relay.rows import add_outbox

pytestmark = pytest.mark.postgres


async def test_where_nothing_waits_it_says_so(operator: Operator) -> None:
    output = (await operator.types("status")).output
    assert output.splitlines() == [
        "own  (producer schema 2)",
        "  nothing waits, nothing failed",
        "shop  (producer schema 2)",
        "  nothing waits, nothing failed",
    ]
    body = await operator.reads("status")
    assert [source["source"] for source in body["sources"]] == ["own", "shop"]
    assert body["problems"] == []


async def test_events_are_told_by_class_and_those_set_aside_by_error(
    operator: Operator, foreign_pool: Pool, now: datetime
) -> None:
    await add_outbox(foreign_pool, 3, message_class=1, available_at=now - timedelta(hours=2))
    await add_outbox(foreign_pool, 2, message_class=0, available_at=now + timedelta(hours=1))
    await add_set_aside(foreign_pool, 2, error="unknown_topic: topic x does not exist")
    [oversized] = await add_set_aside(foreign_pool, error="oversized: 2000000 bytes")
    await foreign_pool.execute(
        "INSERT INTO ulak.outbox_published (id, message_class, topic, payload, headers, sequence, ordered, "
        "sealed, published_at) VALUES (gen_random_uuid(), 1, 't', '', '{}', 1, false, false, $1)",
        now,
    )

    [source] = (await operator.reads("status", "--source", "shop"))["sources"]

    due = source["events"]["waiting"][1]
    assert 7200 <= due.pop("oldestDueSec") < 7260
    assert source["events"] == {
        "waiting": [
            {"class": "critical", "due": 0, "oldestDueSec": None, "later": 2},
            {"class": "tx", "due": 3, "later": 0},
        ],
        "setAside": {
            "count": 3,
            "errors": [
                {
                    "error": "unknown_topic: topic x does not exist",
                    "count": 2,
                    "sample": source["events"]["setAside"]["errors"][0]["sample"],
                },
                {"error": "oversized: 2000000 bytes", "count": 1, "sample": str(oversized)},
            ],
        },
    }
    assert source["published"] == {"count": 1, "oldestAt": now.isoformat()}
    lines = (await operator.types("status", "--source", "shop")).output
    assert "events tx: 3 due, the oldest for 2 h" in lines
    assert "events critical: 2 later" in lines
    assert "events set aside: 3" in lines
    assert f"1  oversized: 2000000 bytes  (such as {oversized})" in lines


async def test_emails_are_told_by_model_and_status(operator: Operator, world: World, now: datetime) -> None:
    waiting, later, sending, taken, sent = [await world.enqueue(model=model) for model in "AAABA"]
    failed = [await world.enqueue(model="B") for _ in range(3)]
    await world.update(waiting, next_attempt_at=now - timedelta(minutes=3))
    await world.update(later, next_attempt_at=now + timedelta(minutes=3))
    for row in (sending, taken):
        await world.update(row, status="SENDING", locked_at=now - timedelta(seconds=30))
    await world.update(sent, status="SENT")
    for row, error in zip(failed, ("render: a", "exhausted: b", "exhausted: b"), strict=True):
        await world.update(row, status="FAILED", error_message=error)

    [source] = (await operator.reads("status", "--source", "shop"))["sources"]
    a, b = source["emails"]
    assert 180 <= a["pending"].pop("oldestDueSec") < 240
    assert 30 <= a["sending"].pop("oldestSec") < 90
    assert a == {
        "model": "A",
        "pending": {"due": 1, "later": 1},
        "sending": {"count": 1},
        "failed": {"count": 0, "errors": []},
        "sentLastDay": 1,
    }
    assert b["failed"] == {
        "count": 3,
        "errors": [
            {"error": "exhausted: b", "count": 2, "sample": public_id(EMAIL, failed[2])},
            {"error": "render: a", "count": 1, "sample": public_id(EMAIL, failed[0])},
        ],
    }
    lines = (await operator.types("status")).output
    assert "e-mails of model A PENDING: 1 due, the oldest for 3 min; 1 later" in lines
    assert "e-mails of model B FAILED: 3 (`ulak outbox requeue`)" in lines
    assert f"2  exhausted: b  (such as {public_id(EMAIL, failed[2])})" in lines


async def test_emails_by_the_api_are_counted_in_the_ledger(operator: Operator, pool: Pool, key_ring: KeyRing) -> None:
    """They have no row. A mail is over once it is over for all its recipients."""
    await add_catalogue(pool)
    application = await add_application(pool)

    async def enter(*addresses: str, **delivery: object) -> UUID:
        id_ = new_id()
        asked = ask(key_ring, application, request(*addresses), id=id_, source=NO_SOURCE, source_id=id_)
        assert (await ledger(pool, key_ring).enter([asked])).entries == [Entered(asked.id, asked.fingerprint)]
        for column, value in delivery.items():
            await pool.execute(f"UPDATE ulak.deliveries SET {column} = $2 WHERE notification_id = $1", id_, value)
        return id_

    await enter("a@example.com")
    await enter("b@example.com", next_attempt_at=datetime.now(UTC) + timedelta(hours=1))
    await enter("c@example.com", "d@example.com", status="SENDING")
    await enter("e@example.com", status="SENT")
    failed = await enter(
        "f@example.com", "g@example.com", status="FAILED", reason="render", last_error="EMAIL tr v1: no name"
    )
    await pool.execute("UPDATE ulak.email_intakes SET settled_at = now() WHERE notification_id = $1", failed)

    own, shop = (await operator.reads("status"))["sources"]
    by_api = own["apiEmails"]
    assert by_api["pending"].pop("oldestDueSec") < 3600
    assert by_api["sending"].pop("oldestSec") < 3600
    error = {"error": "render: EMAIL tr v1: no name", "count": 1, "sample": public_id(EMAIL, failed)}
    assert by_api == {
        "model": "B",
        "pending": {"due": 1, "later": 1},
        "sending": {"count": 1},
        "failed": {"count": 1, "errors": [error]},
        "sentLastDay": 1,
    }
    assert "apiEmails" not in shop
    lines = (await operator.types("status", "--source", "own")).output
    assert "e-mails by the API in the ledger (model B) PENDING: 1 due" in lines
    assert "e-mails by the API in the ledger (model B) FAILED: 1" in lines
    assert "e-mails sent in the last day: 1" in lines


async def test_a_source_that_is_down_hides_no_other(operator: Operator, foreign_pool: Pool) -> None:
    await add_outbox(foreign_pool, 1)
    operator.lose()
    body = await operator.reads("status", exit_code=1)
    assert [source["source"] for source in body["sources"]] == ["own", "shop"]
    [problem] = body["problems"]
    assert problem["source"] == "away"
    assert "ULAK_RELAY_SOURCES" in problem["problem"]
    output = (await operator.types("status", exit_code=1)).output
    assert "events tx: 1 due" in output
    assert "away: PostgreSQL at 127.0.0.1:1/away is not reachable" in output


async def test_nor_does_our_own_when_it_is(operator: Operator) -> None:
    operator.own = "postgresql://ulak:s3cret@127.0.0.1:1/ulak"
    body = await operator.reads("status", exit_code=1)
    assert [source["source"] for source in body["sources"]] == ["shop"]


async def test_a_database_without_our_schema_is_told_how_to_get_it(operator: Operator, foreign_database: str) -> None:
    with psycopg.connect(foreign_database, autocommit=True) as connection:
        connection.execute(b"DROP SCHEMA ulak CASCADE")
    body = await operator.reads("status", exit_code=1)
    assert "ulak outbox ddl" in body["problems"][0]["problem"]


async def test_a_source_is_named_as_the_relay_names_it(operator: Operator) -> None:
    with pytest.raises(Exception, match="there are own, shop"):
        await operator.types("status", "--source", "shpo")
