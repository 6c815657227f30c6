"""The asyncpg pool every process opens once, in its composition root."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import asyncpg
import orjson
from asyncpg.pool import PoolConnectionProxy

from shared.postgres.dsn import shown
from shared.postgres.errors import UNAVAILABLE, UnavailableError, describe
from shared.postgres.settings import PostgresSettings

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
else:  # asyncpg's classes are generic in its stubs alone
    Connection = asyncpg.Connection | PoolConnectionProxy
    Pool = asyncpg.Pool

_CLOSE_SEC: Final = 10.0
_JSONB_VERSION: Final = b"\x01"


@asynccontextmanager
async def open_pool(settings: PostgresSettings, *, name: str, size: int | None = None) -> AsyncIterator[Pool]:
    """A pool of at most `size` (default: settings.pool_size) connections, closed at the end.

    name is what `pg_stat_activity.application_name` shows, after `ulak `. jsonb travels as Python objects, by orjson
    (in a jsonb[] every element is an object: asyncpg reads a list inside a list as one more dimension).
    Two connections are opened at once, so that a wrong DSN fails here: UnavailableError says where and why.
    """
    most = size or settings.pool_size
    try:
        pool: Pool = await asyncpg.create_pool(
            settings.dsn,
            min_size=min(2, most),
            max_size=most,
            init=_prepare,
            reset=_nothing,
            **_connection_options(settings, name),
        )
    except UNAVAILABLE as error:
        raise _unreachable(settings.dsn, error) from error
    try:
        yield pool
    finally:
        try:
            await asyncio.wait_for(pool.close(), _CLOSE_SEC)
        except TimeoutError:  # a query that does not end; its effects are the server's to roll back
            pool.terminate()


@asynccontextmanager
async def connect(settings: PostgresSettings, *, name: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """One connection set up like a pool's, for commands that need no pool; UnavailableError as in `open_pool`."""
    try:
        connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
            settings.dsn, **_connection_options(settings, name)
        )
    except UNAVAILABLE as error:
        raise _unreachable(settings.dsn, error) from error
    try:
        await _prepare(connection)
        yield connection
    finally:
        await connection.close(timeout=_CLOSE_SEC)


def _connection_options(settings: PostgresSettings, name: str) -> dict[str, Any]:
    server_settings = {"application_name": f"ulak {name}"}
    if settings.statement_cache_size:
        # Our statements are short; compiling one costs more than running it. A pooler would refuse the parameter.
        server_settings["jit"] = "off"
    return {
        "timeout": settings.connect_timeout_sec,
        "command_timeout": settings.command_timeout_sec,
        "statement_cache_size": settings.statement_cache_size,
        "server_settings": server_settings,
    }


async def _prepare(connection: Connection) -> None:
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", format="binary", encoder=_encode_jsonb, decoder=_decode_jsonb
    )


async def _nothing(_connection: Connection) -> None:
    """Reset nothing when a connection comes back: what we set and lock ends with its transaction, and what is open is
    rolled back anyway. asyncpg's own way costs a round trip after every statement.
    """


def _encode_jsonb(value: Any) -> bytes:
    return _JSONB_VERSION + orjson.dumps(value)


def _decode_jsonb(data: bytes) -> Any:
    return orjson.loads(data[1:])


def _unreachable(dsn: str, error: Exception) -> UnavailableError:
    return UnavailableError(
        f"PostgreSQL at {shown(dsn)} is not reachable ({describe(error)}): start it, or correct its DSN "
        "(ULAK_POSTGRES_DSN, or ULAK_RELAY_SOURCES for a source)"
    )
