"""One administrative change: its transaction, its line in the audit log, and word of it to those who remember."""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import asyncpg

from services.ingest.admin import problem
from services.ingest.gate import Call
from shared.postgres.audit_log import Actor, record
from shared.postgres.errors import translated
from shared.postgres.pool import Connection, Pool
from shared.redis_store.invalidation import Kind
from shared.web.problem import RefusedError


class Tell(Protocol):
    """Tells the caches of all processes, after a commit; as `shared.redis_store.invalidation.invalidate`."""

    async def __call__(self, kind: Kind, keys: Collection[int] = ()) -> None: ...


@dataclass(frozen=True, slots=True)
class Change:
    """A change under way. What it writes is committed with its audit lines, or none of it is."""

    connection: Connection
    actor: Actor

    async def audit(self, action: str, kind: str, key: str, detail: Mapping[str, Any] | None = None) -> None:
        """As `shared.postgres.audit_log.record`: names and ids only, never an address, a body or a secret."""
        await record(self.connection, self.actor, action, kind, key, detail)


class Administration:
    """What every administrative route works with."""

    def __init__(self, pool: Pool, tell: Tell) -> None:
        self._pool = pool
        self.tell = tell

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Connection]:
        with translated(), _storable():
            async with self._pool.acquire() as connection:
                yield connection

    @asynccontextmanager
    async def changing(self, call: Call) -> AsyncIterator[Change]:
        """A transaction that is committed at the block's end and rolled back by whatever leaves it otherwise."""
        with translated(), _storable():
            async with self._pool.acquire() as connection, connection.transaction():
                yield Change(connection, actor_of(call))

    @asynccontextmanager
    async def changing_catalogue(self, call: Call) -> AsyncIterator[Change]:
        """The same for what every process keeps in memory: they are told after the commit."""
        async with self.changing(call) as change:
            yield change
        await self.tell(Kind.CATALOGUE)


@contextmanager
def _storable() -> Iterator[None]:
    """What no column takes is for the caller to correct; else it would look like a database that is away."""
    try:
        yield
    except (asyncpg.DataError, asyncpg.InterfaceError) as error:
        if isinstance(error, asyncpg.InterfaceError) and not isinstance(error, ValueError):  # the connection's
            raise
        raise RefusedError(
            problem.UNSTORABLE("Leave out NUL characters (\\u0000) and integers of more than 64 bits.")
        ) from error


def actor_of(call: Call) -> Actor:
    return Actor(f"api key {call.caller.key_name} of {call.caller.application}")
