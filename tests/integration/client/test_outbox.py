"""The client's promise: commit makes the event visible, rollback leaves nothing."""

from datetime import datetime
from pathlib import Path

import asyncpg
import orjson
import psycopg
import pytest
from ulak_client import Event, enqueue_event, enqueue_event_sync

pytestmark = pytest.mark.postgres

OUTBOX_DDL = Path(__file__).parents[3] / "shared" / "postgres" / "outbox.sql"
SHIPPED = Event(id="order-1-SHIPPED", source="/shop", type="OrderShipped", data={"name": "İğne"}, key="order-1")


@pytest.fixture
def producer_database(database: str) -> str:
    """A database with the outbox as a service installs it, applied twice: it is idempotent."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA ulak CASCADE")
        for _ in range(2):
            connection.execute(OUTBOX_DDL.read_bytes())
    return database


async def test_commit_makes_the_event_visible_and_rollback_leaves_nothing(producer_database: str) -> None:
    connection = await asyncpg.connect(producer_database)
    try:
        async with connection.transaction():
            assert await enqueue_event(connection, SHIPPED) == "order-1-SHIPPED"
        transaction = connection.transaction()
        await transaction.start()
        await enqueue_event(connection, SHIPPED)
        await transaction.rollback()
        rows = await connection.fetch("SELECT topic, key, payload FROM ulak.outbox")
    finally:
        await connection.close()
    assert [(row["topic"], row["key"]) for row in rows] == [("domain-events", b"order-1")]
    event = orjson.loads(rows[0]["payload"])
    assert event["id"] == "order-1-SHIPPED"
    assert event["data"] == {"name": "İğne"}


def test_psycopg_takes_part_in_the_callers_transaction(producer_database: str) -> None:
    with psycopg.connect(producer_database) as connection:
        enqueue_event_sync(connection, SHIPPED)
        connection.rollback()
        enqueue_event_sync(connection, SHIPPED)
        connection.commit()
        row = connection.execute("SELECT count(*) FROM ulak.outbox").fetchone()
    assert row == (1,)


@pytest.mark.parametrize("field", ["id", "source", "type"])
def test_an_event_without_a_name_is_refused(field: str) -> None:
    values = {"id": "1", "source": "/shop", "type": "T", field: ""}
    with pytest.raises(ValueError, match=field):
        Event(**values, data={})  # type: ignore[arg-type]


def test_a_time_without_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="offset"):
        Event(id="1", source="/shop", type="T", data={}, time=datetime(2026, 1, 1))  # noqa: DTZ001  that is the case
