"""Sealing anew, under the active key, what no retention ever removes: without it no key could go (docs/security.md)."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg

from shared.core.sealing import KeyRing, Purpose, SealError, header, open_sealed, seal
from shared.postgres.errors import translated
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.postgres.schema import check_revision, current_revision
from shared.runtime.keyring import RingSource

BATCH: Final = 500
"""Rows per step: locked for some tens of milliseconds, like a batch of loaded users."""


@dataclass(frozen=True, slots=True)
class LongLived:
    """A sealed column of rows that stay until somebody removes them.

    row: SQL of what its values are bound to, as bytes. first: sorts before every primary key of the table.
    """

    table: str
    column: str
    row: str
    purpose: Purpose
    first: int | UUID | str

    @property
    def place(self) -> str:
        """As `shared.postgres.sealed` names it."""
        return f"{self.table}.{self.column}"


LONG_LIVED: Final = (
    LongLived("recipients", "email_sealed", "email_key", Purpose.ADDRESS, 0),
    LongLived("recipients", "phone_sealed", "phone_key", Purpose.ADDRESS, 0),
    LongLived("devices", "token_sealed", "token_key", Purpose.ADDRESS, UUID(int=0)),
    LongLived("sender_profiles", "dkim_key_sealed", "convert_to(name, 'UTF8')", Purpose.DKIM, ""),
    LongLived("consents", "address_sealed", "subject", Purpose.ADDRESS, UUID(int=0)),
    LongLived("consents", "evidence_sealed", "uuid_send(id)", Purpose.CONSENT, UUID(int=0)),
    LongLived("suppressions", "address_sealed", "address_key", Purpose.ADDRESS, UUID(int=0)),
)


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did at one place.

    looked: rows looked at, of about `rows` in the table. resealed: values that are under the active key now. changed:
    values that somebody else wrote after they were read; theirs stand. shut: values that do not open, because their
    key is lost or not in the ring, or because they were altered or belong to another row; they stay as they are.
    """

    place: str
    rows: int
    looked: int
    resealed: int
    changed: int
    shut: int


async def left_alone(connection: Connection) -> tuple[str, ...]:
    """Every other sealed column of this database, by `table.column`.

    Their rows go with their retention, those of `email_messages_archive` when somebody empties it.
    """
    with translated():
        columns = await connection.fetch(load_queries("sealed")["columns"])
    return tuple(sorted({column["name"] for column in columns} - {column.place for column in LONG_LIVED}))


async def reseal(
    connection: Connection, rings: RingSource, *, only: str | None = None, at_once: int = BATCH
) -> AsyncIterator[Step]:
    """Walk the long-lived columns by primary key, at most `at_once` rows a step; whoever iterates sets the pace.

    only: what is sealed under this key, and nothing else. Every step is a transaction of its own and ends before it is
    yielded: stopped or crashed anywhere, each value is whole under one key or the other, and the next walk touches only
    what is left. The ring is looked at before each step, so that nothing is sealed under a key that was replaced
    meanwhile and may be retired. Raises SchemaOutdatedError, UnavailableError and KeyRingError.
    """
    with translated():
        check_revision(await current_revision(connection))
    for column in LONG_LIVED:
        with translated():
            [statements] = await connection.fetch(
                load_queries("reseal")["statements"], column.table, column.column, column.row
            )
        after = column.first
        while True:
            rings.refresh()
            with translated():
                rows = await connection.fetch(
                    statements["read"],
                    after,
                    at_once,
                    header(rings.ring.active),
                    None if only is None else header(only),
                )
                if not rows:
                    break
                stale = [row for row in rows if row["sealed"] is not None]
                anew = _sealed_anew(rings.ring, column.purpose, stale)
                resealed = await _write(connection, statements, anew)
            yield Step(
                place=column.place,
                rows=statements["rows"],
                looked=len(rows),
                resealed=resealed,
                changed=len(anew) - resealed,
                shut=len(stale) - len(anew),
            )
            after = rows[-1]["id"]


_Change = tuple[int | UUID | str, bytes, bytes]
"""A row's id, its value as it was read, and the one that takes its place."""


def _sealed_anew(ring: KeyRing, purpose: Purpose, rows: Sequence[asyncpg.Record]) -> list[_Change]:
    """Without the rows that do not open."""
    anew: list[_Change] = []
    for row in rows:
        try:
            plain = open_sealed(ring, purpose, row["row"], row["sealed"])
        except SealError:
            continue  # counted by its absence; which key it needs, `ulak keys list --usage` tells
        anew.append((row["id"], row["sealed"], seal(ring, purpose, row["row"], plain)))
    return anew


async def _write(connection: Connection, statements: asyncpg.Record, anew: Sequence[_Change]) -> int:
    """How many values took their place; the others are somebody else's newer ones."""
    if not anew:
        return 0
    written = {row["id"] for row in await connection.fetch(statements["write"], *zip(*anew, strict=True))}
    passed_over = [change for change in anew if change[0] not in written]
    late = [await connection.fetchval(statements["write_one"], *change) for change in passed_over]
    return len(written) + sum(map(bool, late))
