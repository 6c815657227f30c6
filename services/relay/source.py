"""One source's life: opened with back-off, all classes read, woken by NOTIFY. One that is down stops no other."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

import asyncpg

from services.relay.loop import Loop
from services.relay.outbox import OutboxReader, Source
from services.relay.settings import RelaySettings
from services.relay.topics import TopicDirectory
from shared.kafka.record import Publisher
from shared.postgres.pool import Pool, connect, open_pool
from shared.postgres.settings import PostgresSettings, shown
from shared.runtime.logs import get_logger
from shared.runtime.service import Stop
from shared.wire.channel import MessageClass

NOTIFY_CHANNEL: Final = "ulak_outbox"
_KEEP_ALIVE_SEC: Final = 15.0

_log = get_logger(__name__)


def outbox_loops(
    source: Source,
    classes: Sequence[MessageClass],
    settings: RelaySettings,
    *,
    publisher: Publisher,
    topics: TopicDirectory,
    index: Pool,
) -> list[Loop]:
    """One loop per class, so that a class that waits for anything holds no other."""
    return [
        Loop(
            f"outbox-{message_class.label}@{source.name}",
            OutboxReader(
                source,
                message_class,
                publisher=publisher,
                topics=topics,
                index=index,
                batch=settings.batch,
                drains=1 if message_class is MessageClass.CRITICAL else settings.drains,
                full_scan_sec=settings.full_scan_sec,
            ).round,
            settings.poll_sec,
        )
        for message_class in classes
    ]


class ForeignSource:
    """A producer's own database. `run` keeps it open and read until stop."""

    def __init__(
        self,
        dsn: str,
        settings: RelaySettings,
        *,
        postgres: PostgresSettings,
        critical: Publisher,
        publisher: Publisher,
        topics: TopicDirectory,
        index: Pool,
    ) -> None:
        self._settings = settings
        self._postgres = postgres.model_copy(update={"dsn": dsn})
        self._critical = critical
        self._publisher = publisher
        self._topics = topics
        self._index = index
        self.name: Final = shown(dsn)

    async def run(self, stop: Stop) -> None:
        """Returns after stop. The source may be unreachable at any time, at the start as well."""

        async def live() -> bool:
            await self._live(stop)
            return False

        await Loop(f"source@{self.name}", live, self._settings.poll_sec).run(stop)

    async def _live(self, stop: Stop) -> None:
        async with AsyncExitStack() as stack:
            # A connection of its own for the critical class, enough for the others' transactions.
            critical_pool = await stack.enter_async_context(open_pool(self._postgres, name="relay critical", size=2))
            others = len(MessageClass) - 1
            pool = await stack.enter_async_context(
                open_pool(self._postgres, name="relay", size=others * self._settings.drains)
            )
            loops = [
                *outbox_loops(
                    Source(self.name, critical_pool),
                    [MessageClass.CRITICAL],
                    self._settings,
                    publisher=self._critical,
                    topics=self._topics,
                    index=self._index,
                ),
                *outbox_loops(
                    Source(self.name, pool),
                    [entry for entry in MessageClass if entry is not MessageClass.CRITICAL],
                    self._settings,
                    publisher=self._publisher,
                    topics=self._topics,
                    index=self._index,
                ),
            ]
            if self._settings.listen:
                loops.append(Loop(f"listen@{self.name}", self._listener(loops, stop), self._settings.poll_sec))
            _log.info("source_opened", source=self.name)
            async with asyncio.TaskGroup() as group:
                for loop in loops:
                    group.create_task(loop.run(stop))

    def _listener(self, loops: Sequence[Loop], stop: Stop) -> Callable[[], "asyncio.Future[bool]"]:
        def listen() -> "asyncio.Future[bool]":
            return asyncio.ensure_future(listen_for_rows(self._postgres, [loop.wake for loop in loops], stop))

        return listen


async def listen_for_rows(postgres: PostgresSettings, wakes: Sequence[Callable[[], None]], stop: Stop) -> bool:
    """One LISTEN connection's life: every NOTIFY, and the connecting itself (O4), wakes the readers.

    Needs a direct connection; behind a pooler nothing is heard and the poll interval is what remains (O5).
    Raises when the connection is lost, so that the loop around it connects again.
    """
    lost = asyncio.Event()

    def wake(*_arguments: object) -> None:
        for each in wakes:
            each()

    async with connect(postgres, name="relay listen") as connection:
        connection.add_termination_listener(lambda _connection: lost.set())
        await connection.add_listener(NOTIFY_CHANNEL, wake)
        wake()
        waiting = asyncio.ensure_future(lost.wait())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.requested:
                await asyncio.wait({waiting, stopping}, timeout=_KEEP_ALIVE_SEC, return_when=asyncio.FIRST_COMPLETED)
                if lost.is_set():
                    raise asyncpg.ConnectionDoesNotExistError("the LISTEN connection was terminated")
                await connection.execute("SELECT 1")
        finally:
            waiting.cancel()
            stopping.cancel()
        await connection.remove_listener(NOTIFY_CHANNEL, wake)
    return False
