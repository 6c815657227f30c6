"""What the commands work with: the database, and Kafka where letters may lie there alone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from ops.cli.errors import CommandError
from shared.delivery.poison import dead_letter_topics, index_poison
from shared.kafka.error import MessagingError
from shared.kafka.retained import RetainedReader
from shared.kafka.settings import KafkaSettings
from shared.postgres.dead_letter import Letter, find
from shared.postgres.errors import PostgresError, translated
from shared.postgres.pool import Connection, connect
from shared.postgres.schema import check_revision, current_revision
from shared.postgres.settings import PostgresSettings
from shared.runtime.settings import load

T = TypeVar("T")

OUTBOX = "outbox"
"""Rows of outboxes that were set aside: listed with the others, and brought back by `ulak outbox requeue`."""
_SHORTEST_ID = 6


@dataclass(frozen=True, slots=True)
class Desk:
    """Open for the length of one command."""

    connection: Connection
    reader: RetainedReader


def at_desk(work: Callable[[Desk], Awaitable[T]]) -> T:
    """Do it, on the database of `ULAK_POSTGRES_DSN`. CommandError where the database or Kafka cannot be used."""

    async def run() -> T:
        async with _open() as desk:
            return await work(desk)

    try:
        return asyncio.run(run())
    except (PostgresError, MessagingError) as error:
        raise CommandError(f"{error}") from error


@asynccontextmanager
async def _open() -> AsyncIterator[Desk]:
    async with (
        connect(load(PostgresSettings), name="replay") as connection,
        RetainedReader.open(load(KafkaSettings)) as reader,
    ):
        with translated():
            check_revision(await current_revision(connection))
            yield Desk(connection, reader)


def known_topic(topic: str) -> str:
    """The topic. CommandError, with those there are, for any other."""
    known = dead_letter_topics()
    if topic not in known:
        raise CommandError(f"there is no topic of dead letters {topic!r}: there are {', '.join(known)}")
    return topic


async def look(desk: Desk, topic: str) -> int:
    """Enter what the topic holds and the table does not know yet; how many letters that is."""
    return await index_poison(desk.connection, desk.reader, topic, datetime.now(UTC))


async def named(desk: Desk, id_: str) -> Letter:
    """The letter of this id, or of its beginning. CommandError where there is none, or more than one."""
    text = id_.lower()
    if len(text) < _SHORTEST_ID or len(text) > 64 or set(text) - set("0123456789abcdef"):
        raise CommandError(f"{id_!r} is no letter's id: give it as `replay list` prints it")
    found = await find(desk.connection, text)
    if not found:
        raise CommandError(f"there is no letter {id_}: see `replay list TOPIC`")
    if len(found) > 1:
        raise CommandError(f"{id_} begins more than one letter's id: give more of it")
    return found[0]
