"""Under which keys of the ring a database's values are sealed: what decides whether a key may go."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import asyncpg

from shared.core.sealing import TamperedError, key_id
from shared.postgres.errors import translated
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_BLOCKS_AT_ONCE: Final = 2048
"""16 MB of rows: some tens of milliseconds to half a second, so that progress shows and nothing runs long."""
_QUERY_SEC: Final = 600.0
_SHORTEST_REST: Final = bytes(12 + 16)
"""Stands for nonce and tag, which are not read."""


@dataclass(frozen=True, slots=True)
class SealedCounts:
    """How many values are sealed under each key, by `table.column`; partitions count as their table.

    unreadable: values that should be sealed and are of no format that this release knows.
    """

    by_key: Mapping[str, Mapping[str, int]]
    unreadable: Mapping[str, int]


Progress = Callable[[int, int], None]
"""Called with blocks done and blocks in all, after each step."""


async def count_sealed(connection: Connection, progress: Progress = lambda _done, _all: None) -> SealedCounts:
    """Read every sealed column of the schema `ulak` of this database, Ulak's own or a producer's.

    Each column of a table or partition is read in one snapshot, so that no row is missed or counted twice while rows
    move; vacuum is kept from its work no longer than one takes (case O6). A partition that is dropped meanwhile counts
    nothing.
    """
    by_key: dict[str, Counter[str]] = {}
    unreadable: Counter[str] = Counter()
    with translated():
        columns = await connection.fetch(load_queries("sealed")["columns"])
        done, total = 0, sum(column["blocks"] for column in columns)
        for column in columns:
            for header, count in (await _headers(connection, column, done, total, progress)).items():
                try:
                    counts = by_key.setdefault(key_id(header + _SHORTEST_REST), Counter())
                except TamperedError:
                    counts = unreadable
                counts[column["name"]] += count
            done += column["blocks"]
    return SealedCounts(by_key, unreadable)


async def _headers(
    connection: Connection, column: asyncpg.Record, done: int, total: int, progress: Progress
) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            blocks: int = await connection.fetchval(load_queries("sealed")["blocks"], column["table"])
            for first in range(0, blocks, _BLOCKS_AT_ONCE):
                end = min(first + _BLOCKS_AT_ONCE, blocks)
                rows = await connection.fetch(column["statement"], (first, 0), (end, 0), timeout=_QUERY_SEC)
                for row in rows:
                    found[row["header"]] += row["count"]
                progress(min(done + end, total), total)
    except asyncpg.UndefinedTableError:
        return Counter()
    return found
