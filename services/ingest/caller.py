"""Who calls: API keys, read from PostgreSQL by the hash of their secret and remembered for seconds."""

import asyncio
import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.postgres.api_key import Scope
from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries

_SECRET: Final = re.compile(r"ulak_(live|team|test)_[A-Za-z0-9_-]{43}")
_MAX_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """One API key, as stored. mode is its kind: live, team or test; rate_per_second None means no limit of its own."""

    key_id: UUID
    key_name: str
    application_id: int
    application: str
    secret_hash: bytes
    mode: str
    scopes: frozenset[str]
    rate_per_second: int | None
    expires_at: datetime | None
    revoked_at: datetime | None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ALL in self.scopes

    def usable(self, now: datetime) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    @property
    def reads_application(self) -> int | None:
        """The application whose notifications it may read; None: every one (operators)."""
        return None if self.may(Scope.ADMIN) else self.application_id


class CallerCache:
    """Keys by secret. What was found, and what was not, is remembered for `ttl_sec`: a revocation takes that long.

    load answers the key of a secret's hash, or None. clock returns seconds and never goes back. One look-up at a time
    per secret: requests that come meanwhile wait for it.
    """

    def __init__(
        self, load: Callable[[bytes], Awaitable[Caller | None]], *, ttl_sec: float, clock: Callable[[], float]
    ) -> None:
        self._load = load
        self._ttl_sec = ttl_sec
        self._clock = clock
        self._remembered: OrderedDict[str, tuple[float, Caller | None]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Caller | None]] = {}

    async def find(self, secret: str, now: datetime) -> Caller | None:
        """The usable key of this secret, or None. A text that cannot be a secret costs no query."""
        remembered = self._remembered.get(secret)
        if remembered is None or remembered[0] <= self._clock():
            if not _SECRET.fullmatch(secret):
                return None
            caller = await self._ask(secret)
        else:
            caller = remembered[1]
        return caller if caller is not None and caller.usable(now) else None

    async def _ask(self, secret: str) -> Caller | None:
        task = self._asking.get(secret)
        if task is None:
            task = asyncio.create_task(self._look_up(secret))
            self._asking[secret] = task
            task.add_done_callback(lambda _done: self._asking.pop(secret, None))
        # A caller that hangs up must not take the look-up away from the others who wait for it.
        return await asyncio.shield(task)

    async def _look_up(self, secret: str) -> Caller | None:
        digest = hashlib.sha256(secret.encode()).digest()
        caller = await self._load(digest)
        if caller is not None and not hmac.compare_digest(caller.secret_hash, digest):
            caller = None
        self._remembered[secret] = (self._clock() + self._ttl_sec, caller)
        self._remembered.move_to_end(secret)
        while len(self._remembered) > _MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return caller


def load_caller(pool: Pool) -> Callable[[bytes], Awaitable[Caller | None]]:
    """The look-up in `api_keys`; raises UnavailableError while PostgreSQL cannot be asked."""
    query = load_queries("ingest")["api_key"]

    async def load(secret_hash: bytes) -> Caller | None:
        with translated():
            row = await pool.fetchrow(query, secret_hash)
        if row is None:
            return None
        return Caller(
            key_id=row["id"],
            key_name=row["name"],
            application_id=row["application_id"],
            application=row["application"],
            secret_hash=row["secret_hash"],
            mode=row["kind"],
            scopes=frozenset(row["scopes"]),
            rate_per_second=row["rate_per_second"],
            expires_at=row["expires_at"],
            revoked_at=row["revoked_at"],
        )

    return load
