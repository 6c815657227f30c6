"""One source's life: opened with back-off, read by loops of its own. One that is down, or too old, stops no other."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from services.relay.listen import listener
from services.relay.loop import Loop
from services.relay.settings import RelaySettings
from shared.postgres.pool import Pool, open_pool
from shared.postgres.producer import require_version
from shared.postgres.settings import PostgresSettings
from shared.postgres.source import OWN, SourceSpec
from shared.runtime.logs import get_logger
from shared.runtime.metrics import SOURCE_UP
from shared.runtime.service import Stop
from shared.wire.channel import MessageClass

CRITICAL_CONNECTIONS: Final = 3
"""A drain, the reader of ordered rows, and the intake of e-mail."""
_SPARE: Final = 4
"""Connections beside those of the readers: for what measures and prunes, and for e-mail's short statements."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """An open database with the producer schema.

    The critical class has a pool of its own, so that the others' transactions never hold it. It may be behind a pooler
    (O5): run every statement inside a transaction, because outside of one each may reach another server connection.
    """

    spec: SourceSpec
    critical_pool: Pool
    pool: Pool

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def is_own(self) -> bool:
        """Whether it is Ulak's own database."""
        return self.spec.name == OWN

    def pool_of(self, message_class: MessageClass) -> Pool:
        return self.critical_pool if message_class is MessageClass.CRITICAL else self.pool


LoopsOf = Callable[[Source], Sequence[Loop]]
"""What runs over a source; composition makes it."""


@asynccontextmanager
async def open_source(spec: SourceSpec, settings: RelaySettings, postgres: PostgresSettings) -> AsyncIterator[Source]:
    """The source's pools, its schema checked: UnavailableError or SchemaOutdatedError say what to do.

    postgres: limits and time-outs that hold for every database.
    """
    own = postgres.for_source(spec)
    size = spec.pool_size or connections(settings)
    async with (
        open_pool(own, name="relay critical", size=CRITICAL_CONNECTIONS) as critical_pool,
        open_pool(own, name="relay", size=size) as pool,
    ):
        async with pool.acquire() as connection, connection.transaction():
            await require_version(connection)
        yield Source(spec, critical_pool, pool)


def connections(settings: RelaySettings) -> int:
    """One for each transaction that the loops of a source may have open at a time, the critical class's left out."""
    of_a_class = settings.drains + 2  # beside the drains: the reader of ordered rows, and the intake of e-mail
    return (len(MessageClass) - 1) * of_a_class + _SPARE


class ForeignSource:
    """A producer's own database. `run` keeps it open and read until stop."""

    def __init__(
        self, spec: SourceSpec, settings: RelaySettings, postgres: PostgresSettings, loops_of: LoopsOf
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._postgres = postgres
        self._loops_of = loops_of
        SOURCE_UP.labels(spec.name).set(0)

    @property
    def name(self) -> str:
        return self._spec.name

    async def run(self, stop: Stop) -> None:
        """Returns after stop. The source may be unreachable, or without our schema, at any time: it is tried again."""

        async def live() -> bool:
            await self._live(stop)
            return False

        await Loop(f"source@{self.name}", live, self._settings.poll_sec).run(stop)

    async def _live(self, stop: Stop) -> None:
        async with open_source(self._spec, self._settings, self._postgres) as source:
            loops = list(self._loops_of(source))
            if self._settings.listens_to(self._spec):
                direct = self._postgres.model_copy(update={"dsn": self._spec.direct_dsn})
                loops.append(listener(self.name, direct, loops, stop, idle_sec=self._settings.poll_sec))
            _log.info("source_opened", source=self.name, application=self._spec.application)
            async with asyncio.TaskGroup() as group:
                for loop in loops:
                    group.create_task(loop.run(stop), name=loop.name)
