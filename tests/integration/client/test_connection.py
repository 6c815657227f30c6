"""What surrounds a call: the options that reach the row, connections that commit by themselves, rights, refusals."""

import asyncio
import re
import warnings
from datetime import timedelta

import asyncpg
import django.db
import psycopg
import psycopg.rows
import pytest
import sqlalchemy
from django.core.cache import cache
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session
from ulak_client import (
    Attachment,
    AutocommitWarning,
    Email,
    Event,
    enqueue_email,
    enqueue_email_async,
    enqueue_event,
    enqueue_event_async,
)

from tests.integration.client.kind import MAIL, SHIPPED, address, django_database

pytestmark = pytest.mark.postgres


def test_every_option_of_an_event_reaches_its_row(service_database: str) -> None:
    with psycopg.connect(service_database, row_factory=psycopg.rows.dict_row) as connection:
        enqueue_event(connection, SHIPPED, priority="critical", ordered=True, idempotency_key="k")
        row = connection.execute("SELECT message_class, ordered FROM ulak.outbox").fetchone()
        keys = connection.execute("SELECT idempotency_key, event_id FROM ulak.outbox_keys").fetchall()
    assert row == {"message_class": 0, "ordered": True}
    assert keys == [{"idempotency_key": "k", "event_id": SHIPPED.id}]


def test_every_option_of_an_email_reaches_its_row(service_database: str) -> None:
    mail = Email(
        to=["ayse@example.com"],
        template="INVOICE",
        type="INVOICE_READY",
        priority="bulk",
        locale="tr-TR",
        user_id="7",
        attachments=[
            Attachment("fatura:1 %s.pdf", "application/pdf", "s3://invoices/1.pdf"),
            Attachment("logo.png", "image/png", "file:logo.png", content_id="logo"),
        ],
        expires_in=timedelta(days=1, microseconds=500),
        model="A",
    )
    with psycopg.connect(service_database, row_factory=psycopg.rows.dict_row) as connection:
        enqueue_email(connection, mail, idempotency_key="k")
        row = connection.execute(
            "SELECT model, message_class, template, type, locale, user_id, attachments, idempotency_key, "
            "expires_at - created_at AS lives FROM ulak.email_messages"
        ).fetchone()
    assert row == {
        "model": "A",
        "message_class": 2,
        "template": "INVOICE",
        "type": "INVOICE_READY",
        "locale": "tr-TR",
        "user_id": "7",
        "attachments": [
            {"filename": "fatura:1 %s.pdf", "contentType": "application/pdf", "storageRef": "s3://invoices/1.pdf"},
            {"filename": "logo.png", "contentType": "image/png", "storageRef": "file:logo.png", "contentId": "logo"},
        ],
        "idempotency_key": "k",
        "lives": timedelta(days=1, microseconds=500),
    }


def test_psycopg_in_autocommit_is_told_so_and_still_enqueues(service_database: str) -> None:
    with psycopg.connect(service_database, autocommit=True) as connection:
        with pytest.warns(AutocommitWarning, match="durable at once") as told:
            enqueue_event(connection, SHIPPED)
        assert told[0].filename == __file__
        with connection.transaction():
            enqueue_event(connection, SHIPPED)  # warnings are errors here


async def test_asyncpg_outside_a_transaction_is_told_so(service_database: str) -> None:
    connection = await asyncpg.connect(service_database)
    with pytest.warns(AutocommitWarning) as told:
        await enqueue_email_async(connection, MAIL)
    assert told[0].filename == __file__
    await connection.close()


async def test_psycopgs_async_connection_in_autocommit_is_told_so(service_database: str) -> None:
    async with await psycopg.AsyncConnection.connect(service_database, autocommit=True) as connection:
        with pytest.warns(AutocommitWarning):
            await enqueue_event_async(connection, SHIPPED)


def test_sqlalchemy_in_autocommit_is_told_so(service_database: str) -> None:
    engine = sqlalchemy.create_engine(address(service_database, "psycopg"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection, Session(connection) as session:
        with pytest.warns(AutocommitWarning):
            enqueue_event(connection, SHIPPED)
        with pytest.warns(AutocommitWarning):
            enqueue_event(session, SHIPPED)
    engine.dispose()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_sqlalchemys_async_connection_in_autocommit_is_told_so(driver: str, service_database: str) -> None:
    engine = create_async_engine(address(service_database, driver), isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        with pytest.warns(AutocommitWarning) as told:
            await enqueue_event_async(connection, SHIPPED)
    assert told[0].filename == __file__
    await engine.dispose()


async def test_django_outside_atomic_is_told_so(service_database: str) -> None:
    def view() -> None:
        with django_database(service_database), pytest.warns(AutocommitWarning):
            enqueue_event(django.db.connection, SHIPPED)

    await asyncio.to_thread(view)


def test_a_warning_made_an_error_comes_before_anything_is_durable(service_database: str) -> None:
    with psycopg.connect(service_database, autocommit=True) as connection:
        with warnings.catch_warnings(action="error"), pytest.raises(AutocommitWarning):
            enqueue_event(connection, SHIPPED)
        assert connection.execute("SELECT count(*) FROM ulak.outbox").fetchone() == (0,)


def test_a_service_needs_no_more_rights_than_the_readme_grants(service_database: str) -> None:
    with psycopg.connect(service_database, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS shop_of_client_test")
        owner.execute("CREATE ROLE shop_of_client_test")
        owner.execute("GRANT USAGE ON SCHEMA ulak TO shop_of_client_test")
        owner.execute(
            "GRANT SELECT, INSERT ON ulak.outbox, ulak.outbox_keys, ulak.email_messages TO shop_of_client_test"
        )
    with psycopg.connect(service_database) as connection:
        connection.execute("SET ROLE shop_of_client_test")
        for _ in range(2):
            enqueue_event(connection, SHIPPED, idempotency_key="k")
            enqueue_email(connection, MAIL, idempotency_key="k")
        connection.execute("SELECT ulak.enqueue_event('/shop', 'OrderShipped', '{}')")
        connection.commit()
    with psycopg.connect(service_database, autocommit=True) as owner:
        owner.execute("DROP OWNED BY shop_of_client_test")
        owner.execute("DROP ROLE shop_of_client_test")


def test_the_errors_of_sqlalchemy_quote_no_recipient(service_database: str) -> None:
    """They quote parameters, and the service logs them."""
    engine = sqlalchemy.create_engine(address(service_database, "psycopg"))
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("DROP SCHEMA ulak CASCADE"))
        with pytest.raises(sqlalchemy.exc.ProgrammingError) as refused:
            enqueue_email(connection, MAIL)
    engine.dispose()
    assert "ayse" not in str(refused.value)
    assert re.search(r"<\d+ bytes>", str(refused.value))


def test_what_is_no_connection_is_refused_with_what_is_understood() -> None:
    with pytest.raises(TypeError, match=r"builtins\.str is not understood: give a psycopg 3 .* Django"):
        enqueue_event("postgresql://", SHIPPED)


def test_djangos_cache_stands_behind_the_same_proxy_and_is_refused(service_database: str) -> None:
    with django_database(service_database), pytest.raises(TypeError, match="this Django connection is to something"):
        enqueue_event(cache, SHIPPED)


async def test_pools_engines_and_the_wrong_function_are_refused_with_the_right_one(service_database: str) -> None:
    async with asyncpg.create_pool(service_database, min_size=0) as pool:
        with pytest.raises(TypeError, match="acquire the one on which your transaction runs"):
            await enqueue_event_async(pool, SHIPPED)
        async with pool.acquire() as connection:
            with pytest.raises(TypeError, match="use enqueue_event_async"):
                enqueue_event(connection, SHIPPED)
    engine = create_async_engine(address(service_database, "asyncpg"))
    with pytest.raises(TypeError, match="give the Session or Connection of your transaction"):
        await enqueue_event_async(engine, SHIPPED)
    with psycopg.connect(service_database) as blocking, pytest.raises(TypeError, match="use enqueue_event or"):
        await enqueue_email_async(blocking, MAIL)


def test_another_database_than_postgresql_is_refused() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(TypeError, match="speaks sqlite"):
        enqueue_event(connection, SHIPPED)
    engine.dispose()


def test_what_is_too_large_is_refused_before_the_transaction_fails(service_database: str) -> None:
    with psycopg.connect(service_database) as connection:
        with pytest.raises(ValueError, match="below 900000"):
            enqueue_event(connection, Event(id="1", source="/s", type="T", data={"text": "x" * 900_000}))
        with pytest.raises(ValueError, match="256 KiB"):
            enqueue_email(connection, Email(to=["a@example.com"], template="T", parameters={"text": "x" * 262_144}))
        enqueue_event(connection, SHIPPED)
