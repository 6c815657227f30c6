"""Events that were set aside, due again."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import UUID

from ops.cli.outbox.selection import Selection
from ops.cli.outbox.source import CLASSES, look
from ops.cli.outbox.tally import Tally
from shared.core.identifier import InvalidIdError, created_at
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.postgres.source import row_fingerprint

_SQL: Final = load_queries("outbox_cli")
_PAGE: Final = 500
_FIRST: Final = UUID(int=0)


async def requeue_events(
    source: str, connection: Connection, own: Connection, selection: Selection, *, yes: bool
) -> Tally:
    """One page after another, each in a transaction of its own; a row that is set aside again meanwhile stays so.

    Each row's dead letter is closed before the row's commit, so that one which fails again is listed again. A kill
    between the two commits leaves a row that is set aside and not listed: the next requeue finds it all the same.
    """
    tally = Tally()
    async for rows in _pages(connection, selection):
        tally.found.update(row["id"] for row in rows if selection.ids)
        going = [row for row in rows if _goes(row, selection, tally)]
        for row in going:
            tally.show(str(row["id"]), row["topic"], row["error"])
        done = await _due_again(source, connection, own, going) if going and yes else len(going)
        tally.requeued += done
        tally.missed += len(going) - done
    return tally


async def _pages(connection: Connection, selection: Selection) -> AsyncIterator[Sequence[Any]]:
    if selection.ids:
        yield await look(connection, _SQL["named_events"], sorted(selection.ids))
        return
    after = _FIRST
    while rows := await look(connection, _SQL["set_aside_events"], CLASSES, after, selection.error, _PAGE):
        yield rows
        after = rows[-1]["id"]


def _goes(row: Any, selection: Selection, tally: Tally) -> bool:
    """Whether it is meant and can go; who is meant and cannot is counted with the reason."""
    id_: UUID = row["id"]
    if selection.ids and not row["set_aside"]:
        tally.refuse("it is not set aside: the relay publishes it", str(id_))
        return False
    if selection.since is None:
        return True
    try:
        written = created_at(id_) if id_.version == 7 else None
    except InvalidIdError:
        written = None
    if written is None:
        tally.refuse("its id does not tell when it was written: name it, or leave --since away", str(id_))
        return False
    return written >= selection.since


async def _due_again(source: str, connection: Connection, own: Connection, rows: Sequence[Any]) -> int:
    async with connection.transaction():
        changed = await connection.fetch(_SQL["requeue_events"], [row["id"] for row in rows])
        async with own.transaction():
            await own.execute(_SQL["close_event_letters"], [row_fingerprint(source, row["id"]) for row in changed])
    return len(changed)
