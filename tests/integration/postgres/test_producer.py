"""The producers' schema: installed, installed again, upgraded, and what its functions refuse."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import Connection

from shared.postgres import producer
from shared.postgres.errors import SchemaOutdatedError
from shared.postgres.pool import Pool, connect
from shared.postgres.settings import PostgresSettings

pytestmark = pytest.mark.postgres


@pytest.fixture
def service(empty_database: str) -> Iterator[Connection]:
    """A service's own database, with what `ulak outbox ddl` prints."""
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(producer.ddl().encode())
        yield connection


def _one(connection: Connection, query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


async def test_what_the_relay_needs_is_asked_for_with_its_remedy(empty_database: str) -> None:
    async with connect(PostgresSettings(dsn=empty_database), name="test") as connection:
        with pytest.raises(SchemaOutdatedError, match="ulak outbox ddl"):
            await producer.require_version(connection)
        await connection.execute(producer.ddl())
        await producer.require_version(connection)


def test_an_older_version_is_upgraded_and_its_rows_stay(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(producer.step(producer.STEPS[0]).encode())
        connection.execute(b"INSERT INTO ulak.outbox (topic, payload) VALUES ('domain-events', '{}')")
        connection.execute(producer.ddl().encode())
        connection.execute(producer.ddl().encode())
        assert _one(connection, "SELECT count(*) FROM ulak.outbox WHERE NOT ordered AND NOT sealed") == 1
        assert _one(connection, "SELECT max(version) FROM ulak.producer_schema") == producer.VERSION


def test_the_model_that_was_chosen_outlasts_another_installation(service: Connection) -> None:
    service.execute(b"SELECT ulak.enqueue_email(ARRAY['a@example.com'], 'T')")
    assert _one(service, "SELECT model FROM ulak.email_messages") == "B"
    service.execute(producer.ddl(email_model="A").encode())
    service.execute(producer.ddl().encode())
    service.execute(b"TRUNCATE ulak.email_messages")
    service.execute(b"SELECT ulak.enqueue_email(ARRAY['a@example.com'], 'T')")
    assert _one(service, "SELECT model FROM ulak.email_messages") == "A"
    service.execute(b"TRUNCATE ulak.email_messages")
    service.execute(b"SELECT ulak.enqueue_email(ARRAY['a@example.com'], 'T', model => 'B')")
    assert _one(service, "SELECT model FROM ulak.email_messages") == "B"


@pytest.mark.parametrize(
    "call",
    [
        "enqueue_email('{}', 'T')",
        "enqueue_email(ARRAY['nobody'], 'T')",
        "enqueue_email(ARRAY[E'a@example.com\\r\\nBcc: b@example.com'], 'T')",
        "enqueue_email(ARRAY['a@example.com'], 'T', bcc => ARRAY[NULL])",
        "enqueue_email(ARRAY['a@example.com'], '')",
        "enqueue_email(ARRAY['a@example.com'], 'T', '[]')",
        "enqueue_email(ARRAY['a@example.com'], 'T', attachments => '{}')",
        "enqueue_email(ARRAY['a@example.com'], 'T', model => 'C')",
        "enqueue_email(ARRAY['a@example.com'], 'T', priority => 'urgent')",
        "enqueue_email(array_fill('a@example.com'::text, ARRAY[51]), 'T')",
        "enqueue_event('', 't', '{}')",
        "enqueue_event('/s', 't', NULL)",
        "enqueue_event('/s', 't', '{}', ordered => true)",
        "enqueue_event('/s', 't', to_jsonb(repeat('x', 900000)))",
    ],
)
def test_what_can_never_be_sent_is_refused_at_the_insert(service: Connection, call: str) -> None:
    with pytest.raises((psycopg.DataError, psycopg.OperationalError)) as refused:
        service.execute(f"SELECT ulak.{call}".encode())
    assert "example.com" not in (refused.value.diag.message_primary or "")
    assert _one(service, "SELECT (SELECT count(*) FROM ulak.outbox) + (SELECT count(*) FROM ulak.email_messages)") == 0


def test_the_same_key_is_the_same_intent(service: Connection) -> None:
    first = _one(service, "SELECT ulak.enqueue_email(ARRAY['a@example.com'], 'T', idempotency_key => 'k')")
    assert _one(service, "SELECT ulak.enqueue_email(ARRAY['b@example.com'], 'T', idempotency_key => 'k')") == first
    event = _one(service, "SELECT ulak.enqueue_event('/s', 't', '{}', id => 'e-1', idempotency_key => 'k')")
    assert _one(service, "SELECT ulak.enqueue_event('/s', 't', '{}', id => 'e-2', idempotency_key => 'k')") == event
    assert _one(service, "SELECT count(*) FROM ulak.email_messages") == 1
    assert _one(service, "SELECT count(*) FROM ulak.outbox") == 1


def test_a_key_that_was_rolled_back_is_free_again(service: Connection) -> None:
    with service.transaction(force_rollback=True):
        lost = _one(service, "SELECT ulak.enqueue_email(ARRAY['a@example.com'], 'T', idempotency_key => 'k')")
    assert _one(service, "SELECT ulak.enqueue_email(ARRAY['a@example.com'], 'T', idempotency_key => 'k')") != lost


async def test_ulaks_own_database_has_the_same_tables_and_no_notify_on_its_outbox(pool: Pool) -> None:
    await producer.require_version(pool)
    triggers = await pool.fetch("SELECT tgname FROM pg_trigger WHERE tgrelid = 'ulak.outbox'::regclass")
    assert not triggers
    await pool.execute(producer.ddl())
    assert not await pool.fetch("SELECT tgname FROM pg_trigger WHERE tgrelid = 'ulak.outbox'::regclass")
