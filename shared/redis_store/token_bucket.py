"""One account's quota for all workers: a token bucket in Redis (semantics.md section 5; cases R1, R3)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

BURST_SEC: Final = 0.1
"""What a bucket holds, in seconds of its rate: batches stay whole; no second sees more than 1.1 seconds' worth."""

_SCRIPT: Final = (Path(__file__).parent / "token_bucket.lua").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Quota:
    """An account's contract: messages a second, and the part of it that only the critical class may use."""

    account: str
    per_second: float
    reserve_per_second: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.reserve_per_second < self.per_second:
            raise ValueError(
                f"quota of {self.account}: the reserve of {self.reserve_per_second}/s must be below {self.per_second}/s"
            )

    @property
    def capacity(self) -> float:
        # Room for one token beside the reserve, else the others would never get any.
        return max(self.per_second * BURST_SEC, 1 / (1 - self.reserve_per_second / self.per_second))

    def share(self, workers: int) -> "Quota":
        """What one of so many workers may use by itself."""
        return Quota(self.account, self.per_second / workers, self.reserve_per_second / workers)

    def floor(self, *, critical: bool) -> float:
        """Tokens a taker must leave in the bucket: the reserve's share for everyone but the critical class."""
        return 0.0 if critical else self.capacity * self.reserve_per_second / self.per_second


@dataclass(frozen=True, slots=True)
class Grant:
    """`granted` tokens now; for more, wait so long."""

    granted: int
    wait_sec: float


class TokenBuckets:
    """The script and its keys. Raises redis.RedisError as the client does; nothing is sent twice."""

    def __init__(self, redis: Redis, key_prefix: str) -> None:
        self._redis = redis
        self._prefix = key_prefix
        self._sha = ""

    async def take(self, quota: Quota, wanted: int, *, critical: bool) -> Grant:
        """Up to `wanted` tokens at once (at least 1 wanted, else ValueError)."""
        if wanted < 1:
            raise ValueError(f"{wanted} tokens wanted: ask for at least one")
        granted, wait_ms = await self._run(quota, wanted, critical=critical)
        return Grant(granted, wait_ms / 1000)

    async def refund(self, quota: Quota, count: int, *, critical: bool) -> None:
        """Give back what was taken and not used; never above the capacity."""
        if count < 0:
            raise ValueError(f"{count} tokens cannot be given back")
        if count:
            await self._run(quota, -count, critical=critical)

    async def drain(self, account: str, seconds: float, *, critical: bool) -> None:
        """Nobody gets tokens of the account for so long: the provider said so. A longer drain is never shortened.

        The critical class goes on unless one of its own sends was refused.
        """
        for key in self._drains(account) if critical else self._drains(account)[:1]:
            milliseconds = max(1, int(seconds * 1000))
            # NX sets a new one, GT lengthens one that runs (PEXPIRE GT: Redis 7, Valkey).
            if not await self._redis.set(key, b"1", px=milliseconds, nx=True):
                await self._redis.pexpire(key, milliseconds, gt=True)

    async def drained_sec(self, account: str) -> tuple[float, float]:
        """For how long nobody gets tokens of the account, and for how long not even the critical class; 0: they do."""
        left = [await self._redis.pttl(key) for key in self._drains(account)]
        everybody, critical = (max(0, milliseconds) / 1000 for milliseconds in left)
        return everybody, critical

    async def check(self) -> None:
        """Run the script on a bucket of its own: a server that answers PING but refuses scripts is not ready (R3)."""
        await self.take(Quota("health-check", 1000.0), 1, critical=True)

    async def _run(self, quota: Quota, wanted: int, *, critical: bool) -> tuple[int, int]:
        keys = (self._key(quota.account, "bucket"), *self._drains(quota.account))
        arguments = (quota.per_second, quota.capacity, quota.floor(critical=critical), wanted, int(critical))
        try:
            answer = await self._redis.evalsha(self._sha or await self._load(), len(keys), *keys, *map(str, arguments))
        except NoScriptError:
            # The server knows no such script (restart, SCRIPT FLUSH), so it has run nothing. EVAL brings the script
            # along and keeps it, so that another flush in between cannot fail this call again.
            answer = await self._redis.eval(_SCRIPT, len(keys), *keys, *map(str, arguments))
        granted, wait_ms = answer
        return int(granted), int(wait_ms)

    async def _load(self) -> str:
        self._sha = str(await self._redis.script_load(_SCRIPT))
        return self._sha

    def _drains(self, account: str) -> tuple[str, str]:
        return self._key(account, "drain"), self._key(account, "drain-critical")

    def _key(self, account: str, kind: str) -> str:
        # The braces keep one account's keys in one slot of a cluster.
        return f"{self._prefix}quota:{{{account}}}:{kind}"
