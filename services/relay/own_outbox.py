"""The relay's own parts publish through the outbox where a hint or an event must be as durable as the row behind it."""

from collections.abc import Sequence
from typing import Final

from shared.kafka.record import Record
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_INSERT: Final = load_queries("relay")["insert_outbox"]


async def enqueue(connection: Connection, records: Sequence[tuple[int, Record]]) -> None:
    """Put (message class, record) pairs into the outbox, in the caller's transaction. Records have values."""
    if not records:
        return
    await connection.execute(
        _INSERT,
        [message_class for message_class, _ in records],
        [record.topic for _, record in records],
        [record.key for _, record in records],
        [record.value for _, record in records],
        [{name: value.decode() for name, value in record.headers} for _, record in records],
    )
