"""The databases that services enqueue in, as the relay knows them: asked side by side, each with its own fate."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import asyncpg

from ops.cli.errors import CommandError
from shared.postgres.errors import PostgresError, describe, translated
from shared.postgres.pool import Connection, connect
from shared.postgres.producer import require_version
from shared.postgres.settings import PostgresSettings, SourceSettings
from shared.postgres.source import OWN
from shared.runtime.settings import load
from shared.wire.channel import MessageClass

T = TypeVar("T")

CLASSES: Final = [int(each) for each in MessageClass]
_LOOK_SEC: Final = 10
"""How long one statement of a look may take: a longer one would keep vacuum from what the relay needs (case O6)."""


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """By source: what was found, and what is wrong with those that could not be asked."""

    found: Mapping[str, T]
    problems: Mapping[str, str]

    def problem_bodies(self) -> list[dict[str, str]]:
        """For JSON."""
        return [{"source": name, "problem": problem} for name, problem in self.problems.items()]


def databases(only: str | None) -> dict[str, PostgresSettings]:
    """Ulak's own and the relay's sources by name, or the one that is named; CommandError if there is none such."""
    own = load(PostgresSettings)
    found = {OWN: own} | {spec.name: own.for_source(spec) for spec in load(SourceSettings).specs}
    if only is None:
        return found
    if only not in found:
        raise CommandError(f"no source {only!r}: there are {', '.join(found)} (ULAK_RELAY_SOURCES)")
    return {only: found[only]}


async def ask_each(
    settings: Mapping[str, PostgresSettings], work: Callable[[str, Connection], Awaitable[T]]
) -> Answers[T]:
    """Run `work` on each source that can be reached and whose schema this release knows, all at the same time."""
    outcomes = await asyncio.gather(*(_ask(name, each, work) for name, each in settings.items()))
    pairs = list(zip(settings, outcomes, strict=True))
    return Answers(
        {name: outcome.value for name, outcome in pairs if isinstance(outcome, _Found)},
        {name: outcome for name, outcome in pairs if isinstance(outcome, str)},
    )


@asynccontextmanager
async def looking(connection: Connection) -> AsyncIterator[None]:
    """A transaction that only reads, and whose statements are cut off before they hurt."""
    async with connection.transaction(readonly=True):
        await connection.execute(f"SET LOCAL statement_timeout = '{_LOOK_SEC}s'")
        yield


async def look(connection: Connection, statement: str, *arguments: Any) -> Sequence[Any]:
    """One statement of a look. Behind a pooler (O5) its parts reach one server connection only in a transaction."""
    async with looking(connection):
        return await connection.fetch(statement, *arguments)


@dataclass(frozen=True, slots=True)
class _Found(Generic[T]):
    value: T


async def _ask(
    name: str, settings: PostgresSettings, work: Callable[[str, Connection], Awaitable[T]]
) -> _Found[T] | str:
    """What `work` found, or one sentence that says why it could not."""
    try:
        async with connect(settings, name="outbox") as connection:
            with translated():
                async with looking(connection):
                    await require_version(connection)
                return _Found(await work(name, connection))
    except PostgresError as error:
        return str(error)
    except asyncpg.QueryCanceledError:
        return f"it did not answer within {_LOOK_SEC} s: it is overloaded, or its tables wait for VACUUM"
    except asyncpg.InsufficientPrivilegeError as error:
        return f"{describe(error)}: grant it to the role of this source's DSN"
