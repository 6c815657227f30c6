"""One class of one outbox, key by key: the rows that ask for it are published in the order of their key (O3).

A key's rows are taken from its first on, and never while another relay works on the key (relay.sql, claim_ordered).
Order is that of `sequence` among what is committed: a producer whose transactions change one thing at the same time
lets them wait for each other, by a lock on that thing's row, or its events have no order to keep.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import asyncpg

from services.relay.error import BrokerUnreachableError
from services.relay.publication import Publication
from services.relay.scan import OLDEST, ScanPlan
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.wire.channel import MessageClass

_ROWS_PER_KEY: Final = 4
"""A claim has room for that many rows of each of its keys, or for more where it has fewer keys."""
_CLAIMS_PER_TURN: Final = 50
"""After so many the loop gets its turn: it watches for stop."""


class OrderedReader:
    """Two looks, as ScanPlan has it: often at the keys whose rows became due lately, now and then at all keys.

    It walks over keys, not rows: rows that must wait behind one of their key, however many, cost other keys nothing.
    """

    def __init__(
        self, pool: Pool, message_class: MessageClass, publication: Publication, *, batch: int, full_scan_sec: float
    ) -> None:
        self._pool = pool
        self._class = message_class
        self._publication = publication
        self._batch = batch
        self._keys = max(1, batch // _ROWS_PER_KEY)
        self._plan = ScanPlan(full_scan_sec)
        self._walk: _Walk | None = None
        self._found = False
        self._sql: Final = load_queries("relay")

    async def round(self) -> bool:
        """Look once and publish what can be. True if there may be more.

        Raises as `OutboxReader.round`.
        """
        self._found = False
        if not self._publication.ready():
            raise BrokerUnreachableError("no broker answers")
        floor = self._plan.floor(time.monotonic())
        if self._walk is not None or floor == OLDEST:
            return await self._step()
        return await self._recent(floor)

    def found(self) -> bool:
        """Whether the last round claimed anything."""
        return self._found

    async def _recent(self, floor: datetime) -> bool:
        found = await self._look("recent_keys", floor, self._batch)
        self._plan.claimed(
            floor=floor, newest=found["newest"], full=found["rows"] == self._batch, at=time.monotonic(), took_sec=0.0
        )
        more = False
        for keys in _chunks(found["keys"], self._keys):
            more = await self._drain(keys) or more
        return more

    async def _step(self) -> bool:
        """The next keys of a walk over all."""
        started = time.monotonic()
        walk = self._walk or _Walk()
        found = await self._look("next_keys", walk.next_key, self._keys)
        walk.looked(found["keys"], at=found["at"], took_sec=time.monotonic() - started)
        last = len(found["keys"]) < self._keys
        self._walk = None if last else walk
        if last:
            self._plan.claimed(floor=OLDEST, newest=walk.began, full=False, at=time.monotonic(), took_sec=walk.took_sec)
        return await self._drain(found["keys"]) or not last

    async def _look(self, query: str, start: object, most: int) -> asyncpg.Record:
        async with self._pool.acquire() as connection, connection.transaction():
            found = await connection.fetchrow(self._sql[query], int(self._class), start, most)
        assert found is not None  # both are aggregates
        return found

    async def _drain(self, keys: Sequence[bytes]) -> bool:
        """Publish what these keys have. True if one of them may have more."""
        for _ in range(_CLAIMS_PER_TURN):
            if not keys:
                return False
            keys = await self._claim(keys)
        return True

    async def _claim(self, keys: Sequence[bytes]) -> list[bytes]:
        """One transaction; returns the keys that gave all they were asked for."""
        most = max(1, self._batch // len(keys))
        left = self._publication.left_alone()
        async with self._pool.acquire() as connection, connection.transaction():
            rows = await connection.fetch(
                self._sql["claim_ordered"],
                int(self._class),
                keys,
                most,
                self._publication.keeps,
                left.headers,
                left.sec,
            )
            if not rows:
                return []
            self._found = True
            failure = await self._publication.publish(connection, rows)
        if failure is not None:
            raise failure
        taken = Counter(row["key"] for row in rows)
        return [key for key, count in taken.items() if count == most]


class _Walk:
    """How far one walk over all keys has come."""

    def __init__(self) -> None:
        self.next_key = b""
        self.began: datetime | None = None
        self.took_sec = 0.0

    def looked(self, keys: Sequence[bytes], *, at: datetime, took_sec: float) -> None:
        self.began = self.began or at
        self.took_sec += took_sec
        if keys:
            self.next_key = keys[-1] + b"\x00"  # the smallest key behind the last one


def _chunks(keys: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
