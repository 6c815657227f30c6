"""Users' words on categories and channels, read from PostgreSQL and kept for a few seconds.

Consent is another matter: it is never kept (shared/postgres/consent.py).
"""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.runtime.metrics import CACHE_LOOKUPS
from shared.wire.channel import Category

Preferences = Mapping[tuple[Category, str, str], bool]
"""(category, channel, type or '' for all of the category) -> enabled, of one user."""

MAX_USERS: Final = 50_000
"""Some 20 MiB where everybody has said something; most have not, and share one empty mapping."""

_SQL: Final = load_queries("preference")
_NOTHING_SAID: Final[Preferences] = {}


class PreferenceCache:
    """Preferences as they were at most `ttl_sec` ago, of the users read last. clock as of `time.monotonic`."""

    def __init__(
        self, *, ttl_sec: float = 5.0, max_users: int = MAX_USERS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ttl_sec = ttl_sec
        self._max_users = max_users
        self._clock = clock
        self._kept: OrderedDict[int, tuple[float, Preferences]] = OrderedDict()
        self._forgotten = 0
        self._hits = CACHE_LOOKUPS.labels("preferences", "hit")
        self._misses = CACHE_LOOKUPS.labels("preferences", "miss")

    async def of(self, connection: Connection, users: Iterable[int]) -> Mapping[int, Preferences]:
        """The words of each of the users, none where they said nothing; at most one query."""
        asked = set(users)
        now = self._clock()
        found = {
            user: kept[1]
            for user in asked
            if (kept := self._kept.get(user)) is not None and kept[0] > now - self._ttl_sec
        }
        missing = sorted(asked - found.keys())
        self._hits.inc(len(found))
        self._misses.inc(len(missing))
        if missing:
            forgotten = self._forgotten
            read = await read_preferences(connection, missing)
            if forgotten == self._forgotten:  # else some were changed meanwhile, perhaps after we had read them
                self._keep(read, now)
            found |= read
        return found

    def _keep(self, read: Mapping[int, Preferences], at: float) -> None:
        for user, words in read.items():
            self._kept[user] = (at, words)
            self._kept.move_to_end(user)
        while len(self._kept) > self._max_users:
            self._kept.popitem(last=False)

    def forget(self, users: Collection[str] | None = None) -> None:
        """What these users said was changed (None: anybody): it is read when it is asked for next."""
        self._forgotten += 1
        if users is None:
            self._kept.clear()
            return
        for user in users:
            if user.isdecimal():
                self._kept.pop(int(user), None)


async def read_preferences(connection: Connection, users: Collection[int]) -> dict[int, Preferences]:
    """The same, never from memory."""
    if not users:
        return {}
    said: defaultdict[int, dict[tuple[Category, str, str], bool]] = defaultdict(dict)
    for row in await connection.fetch(_SQL["preferences"], users):
        said[row["user_id"]][Category(row["category"]), row["channel"], row["type"]] = row["enabled"]
    return {user: said.get(user, _NOTHING_SAID) for user in users}
