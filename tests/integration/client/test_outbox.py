"""The client's promise: commit makes it visible, rollback leaves nothing, whatever connection the caller has."""

from uuid import UUID

import orjson
import psycopg
import psycopg.rows
import pytest

from tests.integration.client.kind import EMAIL, EVENT, KINDS

pytestmark = pytest.mark.postgres


def rows(dsn: str, query: str) -> list[dict[str, object]]:
    with psycopg.connect(dsn, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.mark.parametrize("kind", KINDS)
async def test_commit_makes_the_event_visible_with_its_fact(kind: str, service_database: str) -> None:
    assert await KINDS[kind](service_database, EVENT, True) == "order-1-SHIPPED"
    assert rows(service_database, "SELECT status FROM orders") == [{"status": "SHIPPED"}]
    (row,) = rows(service_database, "SELECT * FROM ulak.outbox")
    assert (row["topic"], row["key"], row["message_class"]) == ("domain-events", b"order-1", 1)
    assert (row["ordered"], row["sealed"]) == (False, False)
    event = orjson.loads(row["payload"])  # type: ignore[arg-type]
    assert event["specversion"] == "1.0"
    assert (event["id"], event["source"], event["type"]) == ("order-1-SHIPPED", "/shop", "OrderShipped")
    assert event["data"] == {"name": "İğne"}


@pytest.mark.parametrize("kind", KINDS)
async def test_commit_makes_the_email_visible_with_its_fact(kind: str, service_database: str) -> None:
    answer = await KINDS[kind](service_database, EMAIL, True)
    assert rows(service_database, "SELECT status FROM orders") == [{"status": "SHIPPED"}]
    (row,) = rows(service_database, "SELECT * FROM ulak.email_messages")
    assert row["id"] == UUID(str(answer))
    assert (row["status"], row["model"], row["template"], row["type"]) == ("PENDING", "B", "ORDER_SHIPPED", None)
    assert (row["message_class"], row["sealed"], row["attachments"], row["expires_at"]) == (1, False, [], None)
    assert orjson.loads(row["recipients"]) == {  # type: ignore[arg-type]
        "to": ["Ayşe Yılmaz <ayse@example.com>"],
        "cc": [],
        "bcc": [],
    }
    assert orjson.loads(row["parameters"]) == {"name": "İğne"}  # type: ignore[arg-type]


@pytest.mark.parametrize("work", [EVENT, EMAIL], ids=["event", "email"])
@pytest.mark.parametrize("kind", KINDS)
async def test_rollback_leaves_nothing(kind: str, work: object, service_database: str) -> None:
    assert await KINDS[kind](service_database, work, False)  # type: ignore[arg-type]
    for table in ("orders", "ulak.outbox", "ulak.email_messages"):
        assert rows(service_database, f"SELECT 1 FROM {table}") == [], table
