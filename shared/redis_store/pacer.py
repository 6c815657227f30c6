"""Tokens for senders: from Redis, or this worker's share of the quota where there is none or it cannot be reached."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from redis.exceptions import RedisError

from shared.redis_store.token_bucket import Grant, Quota, TokenBuckets
from shared.runtime.metrics import REDIS_FALLBACK, TOKENS

_log = structlog.get_logger(__name__)

_MIN_POLL_SEC: Final = 0.005
_MAX_POLL_SEC: Final = 0.25


@dataclass(slots=True)
class LocalBucket:
    """The same arithmetic without Redis, by a monotonic clock, for one worker's share. Starts empty."""

    quota: Quota
    tokens: float = 0.0
    at: float | None = None

    def take(self, wanted: int, now: float, *, critical: bool) -> Grant:
        rate, floor = self.quota.per_second, self.quota.floor(critical=critical)
        if self.at is not None:
            self.tokens = min(self.quota.capacity, self.tokens + max(0.0, now - self.at) * rate)
        self.at = now
        granted = max(0, int(min(wanted, self.tokens - floor)))
        self.tokens -= granted
        return Grant(granted, max(0.0, (floor + 1 - self.tokens) / rate))


class Pacer:
    """Takes and gives back tokens; an account without a quota is waited for only after the provider throttled it here.

    quotas: by account, asked at each take, so that they may change. workers: how many processes share them; each goes
    on with its share when Redis is away (semantics.md section 5). The rate then is never above the contract, whoever
    else is running. buckets None: there is no Redis at all.
    """

    def __init__(
        self,
        buckets: TokenBuckets | None,
        quotas: Mapping[str, Quota],
        *,
        workers: int,
        retry_sec: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._buckets = buckets
        self._quotas = quotas
        self._retry_sec = retry_sec
        self._clock = clock
        self._sleep = sleep
        self._redis_away_until = float("-inf")
        self._workers = workers
        self._local: dict[str, LocalBucket] = {}
        self._drained_until: dict[tuple[str, bool], float] = {}

    async def take(self, account: str, wanted: int, *, critical: bool, patience_sec: float) -> int:
        """Between 0 and `wanted` tokens: the first that can be had, waiting at most `patience_sec`.

        0 means that the wait would be, or was, longer.
        """
        quota = self._quotas.get(account)
        until = self._clock() + patience_sec
        while wanted:
            grant = await self._once(account, quota, wanted, critical=critical)
            if grant.granted:
                TOKENS.labels(account, "granted").inc(grant.granted)
                return grant.granted
            left_sec = until - self._clock()
            if grant.wait_sec > left_sec:
                TOKENS.labels(account, "refused").inc(wanted)
                return 0
            await self._sleep(min(_MAX_POLL_SEC, max(_MIN_POLL_SEC, grant.wait_sec)))
        return 0

    async def refund(self, account: str, count: int, *, critical: bool) -> None:
        """Give back unused tokens; lost without Redis, which only makes us slower."""
        quota = self._quotas.get(account)
        if self._buckets is None or quota is None or count <= 0 or self._clock() < self._redis_away_until:
            return
        try:
            await self._buckets.refund(quota, count, critical=critical)
        except RedisError as error:
            self._redis_gone(error)

    async def drain(self, account: str, seconds: float, *, critical: bool) -> None:
        """The provider throttles the whole account: all workers rest for so long."""
        until = self._clock() + seconds
        for met_by in (True, False) if critical else (False,):
            self._drained_until[account, met_by] = max(until, self._drained_until.get((account, met_by), until))
        if self._buckets is not None and account in self._quotas:  # of the others nobody asks Redis
            try:
                await self._buckets.drain(account, seconds, critical=critical)
            except RedisError as error:
                self._redis_gone(error)
        _log.warning("account_drained", account=account, seconds=seconds, critical=critical)

    async def _once(self, account: str, quota: Quota | None, wanted: int, *, critical: bool) -> Grant:
        now = self._clock()
        drained_until = self._drained_until.get((account, critical), now)
        if now < drained_until:
            return Grant(0, drained_until - now)
        if quota is None:
            return Grant(wanted, 0.0)
        if self._buckets is not None and self._clock() >= self._redis_away_until:
            try:
                return await self._buckets.take(quota, wanted, critical=critical)
            except RedisError as error:
                self._redis_gone(error)
        return self._share(quota).take(wanted, self._clock(), critical=critical)

    def _share(self, quota: Quota) -> LocalBucket:
        """The part of this worker; after a change of the quota a new one, which starts empty."""
        share = quota.share(self._workers)
        found = self._local.get(quota.account)
        if found is None or found.quota != share:
            found = self._local[quota.account] = LocalBucket(share)
        return found

    def _redis_gone(self, error: RedisError) -> None:
        self._redis_away_until = self._clock() + self._retry_sec
        REDIS_FALLBACK.inc()
        _log.warning("redis_unreachable", error_class=type(error).__name__, effect="quota share of this worker")
