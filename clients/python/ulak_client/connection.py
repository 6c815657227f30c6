"""The caller's connection, whatever made it: which kind it is, and how one statement runs on it.

A connection is known by its class (its module and name, and those of its bases), so that no driver is imported that
the caller does not use. Nothing here connects, begins, commits or rolls back.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ulak_client.call import Call

UNDERSTOOD: Final = (
    "psycopg 3 (Connection, Cursor, AsyncConnection, AsyncCursor), asyncpg (Connection, one acquired from a pool), "
    "SQLAlchemy 2 on PostgreSQL (Session, Connection, scoped_session and their async forms), "
    "Django on PostgreSQL (django.db.connection, connections[...], a cursor)"
)


class AutocommitWarning(UserWarning):
    """The connection commits each statement at once: what is enqueued stays, even if the work it tells of does not."""


@dataclass(frozen=True, slots=True)
class Driver:
    """autocommits: whether a statement run now is committed at once. execute answers the call's one value."""

    autocommits: Callable[[Any], bool]
    execute: Callable[[Any, Call], str]


@dataclass(frozen=True, slots=True)
class AsyncDriver:
    """The same for a connection whose methods are awaited."""

    autocommits: Callable[[Any], Awaitable[bool]]
    execute: Callable[[Any, Call], Awaitable[str]]


def driver(connection: object) -> Driver:
    """How to use a blocking connection; TypeError says what is understood instead."""
    found = _known(connection, _DRIVERS)
    if found is not None:
        return found
    if _known(connection, _ASYNC_DRIVERS) is not None:
        raise TypeError(f"{_name(connection)} is awaited: use enqueue_event_async or enqueue_email_async")
    raise _unknown(connection)


def async_driver(connection: object) -> AsyncDriver:
    """How to use an awaited connection; TypeError says what is understood instead."""
    found = _known(connection, _ASYNC_DRIVERS)
    if found is not None:
        return found
    if _known(connection, _DRIVERS) is not None:
        raise TypeError(f"{_name(connection)} blocks: use enqueue_event or enqueue_email")
    raise _unknown(connection)


_Known = TypeVar("_Known")


def _known(connection: object, kinds: Mapping[str, _Known]) -> _Known | None:
    for base in type(connection).__mro__:
        found = kinds.get(f"{base.__module__}.{base.__qualname__}")
        if found is not None:
            return found
    return None


def _unknown(connection: object) -> TypeError:
    return TypeError(
        _known(connection, _NOT_IN_A_TRANSACTION) or f"{_name(connection)} is not understood: give a {UNDERSTOOD}"
    )


def _name(connection: object) -> str:
    kind = type(connection)
    return f"{kind.__module__}.{kind.__qualname__}"


# ------------------------------------------------------------------------------------------------------------- psycopg


def _psycopg_autocommits(connection: Any) -> bool:
    from psycopg.pq import TransactionStatus

    return bool(connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE)


def _psycopg(connection: Any, call: Call) -> str:
    # A cursor of our own kind: the connection's may be a RawCursor, and its rows may be dicts.
    from psycopg import Cursor
    from psycopg.rows import tuple_row

    with Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(call.pyformat().encode(), call.values())
        return _value(cursor.fetchone())


async def _psycopg_async_autocommits(connection: Any) -> bool:
    return _psycopg_autocommits(connection)


async def _psycopg_async(connection: Any, call: Call) -> str:
    from psycopg import AsyncCursor
    from psycopg.rows import tuple_row

    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(call.pyformat().encode(), call.values())
        return _value(await cursor.fetchone())


# ------------------------------------------------------------------------------------------------------------- asyncpg


async def _asyncpg_autocommits(connection: Any) -> bool:
    return not connection.is_in_transaction()


async def _asyncpg(connection: Any, call: Call) -> str:
    text, values = call.numbered()
    return str(await connection.fetchval(text, *values))


# ---------------------------------------------------------------------------------------------------------- SQLAlchemy


def _sqlalchemy_autocommits(connection: Any) -> bool:
    if connection.dialect.name != "postgresql":
        raise TypeError(f"this SQLAlchemy connection speaks {connection.dialect.name}: Ulak's outbox is in PostgreSQL")
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


def _sqlalchemy(connection: Any, call: Call) -> str:
    from sqlalchemy import text

    return str(connection.execute(text(call.named()), call.values()).scalar_one())


async def _sqlalchemy_async_autocommits(session_or_connection: Any) -> bool:
    return bool(await session_or_connection.run_sync(lambda blocking: driver(blocking).autocommits(blocking)))


async def _sqlalchemy_async(session_or_connection: Any, call: Call) -> str:
    return str(await session_or_connection.run_sync(lambda blocking: driver(blocking).execute(blocking, call)))


# -------------------------------------------------------------------------------------------------------------- Django


def _django_autocommits(connection: Any) -> bool:
    vendor = getattr(connection, "vendor", "something else")  # Django's cache is behind the same proxy class
    if vendor != "postgresql":
        raise TypeError(f"this Django connection is to {vendor}: Ulak's outbox is in PostgreSQL")
    return bool(connection.get_autocommit())


def _django(connection: Any, call: Call) -> str:
    with connection.cursor() as cursor:
        cursor.execute(call.pyformat(), call.values())
        return _value(cursor.fetchone())


def _value(row: Any) -> str:
    return str(row[0])


_PSYCOPG: Final = Driver(_psycopg_autocommits, _psycopg)
_DJANGO: Final = Driver(_django_autocommits, _django)
_SQLALCHEMY: Final = Driver(_sqlalchemy_autocommits, _sqlalchemy)


def _through(reach: Callable[[Any], Any], kind: Driver) -> Driver:
    """For what is not a connection but has one."""
    return Driver(
        lambda given: kind.autocommits(reach(given)),
        lambda given, call: kind.execute(reach(given), call),
    )


def _async_through(reach: Callable[[Any], Any], kind: AsyncDriver) -> AsyncDriver:
    return AsyncDriver(
        lambda given: kind.autocommits(reach(given)),
        lambda given, call: kind.execute(reach(given), call),
    )


_SESSION: Final = _through(lambda session: session.connection(), _SQLALCHEMY)
_DRIVERS: Final[Mapping[str, Driver]] = {
    "psycopg.Connection": _PSYCOPG,
    "psycopg.Cursor": _through(lambda cursor: cursor.connection, _PSYCOPG),
    "sqlalchemy.engine.base.Connection": _SQLALCHEMY,
    "sqlalchemy.orm.session.Session": _SESSION,
    "sqlalchemy.orm.scoping.scoped_session": _SESSION,
    "django.utils.connection.ConnectionProxy": _DJANGO,
    "django.db.backends.base.base.BaseDatabaseWrapper": _DJANGO,
    "django.db.backends.utils.CursorWrapper": _through(lambda cursor: cursor.db, _DJANGO),
}

_ASYNC_PSYCOPG: Final = AsyncDriver(_psycopg_async_autocommits, _psycopg_async)
_ASYNC_SQLALCHEMY: Final = AsyncDriver(_sqlalchemy_async_autocommits, _sqlalchemy_async)
_ASYNC_ASYNCPG: Final = AsyncDriver(_asyncpg_autocommits, _asyncpg)
_ASYNC_DRIVERS: Final[Mapping[str, AsyncDriver]] = {
    "asyncpg.connection.Connection": _ASYNC_ASYNCPG,
    "asyncpg.pool.PoolConnectionProxy": _ASYNC_ASYNCPG,
    "psycopg.AsyncConnection": _ASYNC_PSYCOPG,
    "psycopg.AsyncCursor": _async_through(lambda cursor: cursor.connection, _ASYNC_PSYCOPG),
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _ASYNC_SQLALCHEMY,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _ASYNC_SQLALCHEMY,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _async_through(lambda scope: scope(), _ASYNC_SQLALCHEMY),
}

_POOL: Final = "a pool takes any of its connections: acquire the one on which your transaction runs, and give that"
_ENGINE: Final = "an engine takes any of its connections: give the Session or Connection of your transaction"
_NOT_IN_A_TRANSACTION: Final[Mapping[str, str]] = {
    "asyncpg.pool.Pool": _POOL,
    "psycopg_pool.base.BasePool": _POOL,
    "sqlalchemy.engine.base.Engine": _ENGINE,
    "sqlalchemy.ext.asyncio.engine.AsyncEngine": _ENGINE,
}
