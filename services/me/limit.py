"""How fast one user may call: counted in Redis for all processes, here alone while there is none."""

import math
from collections.abc import Callable

from redis.exceptions import RedisError

from shared.core.sealing import keyed_hash
from shared.redis_store.caller_rate import CallerRate
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import REDIS_FALLBACK
from shared.web.rate import RateLimiter

_log = get_logger(__name__)


class UserLimiter:
    """The user's id is hashed before it stands in a key. An unreachable Redis is left alone for `retry_sec`."""

    def __init__(
        self,
        rate: CallerRate,
        local: RateLimiter,
        rings: RingSource,
        *,
        retry_sec: float,
        clock: Callable[[], float],
    ) -> None:
        self._rate = rate
        self._local = local
        self._rings = rings
        self._retry_sec = retry_sec
        self._clock = clock
        self._away_until = float("-inf")

    async def take(self, user: str) -> int | None:
        """None if the request may go on, else the whole seconds after which to come again."""
        if self._clock() >= self._away_until:
            try:
                wait_sec = await self._rate.take(keyed_hash(self._rings.ring, "me:rate", user).hex())
            except RedisError as error:
                self._away_until = self._clock() + self._retry_sec
                REDIS_FALLBACK.inc()
                _log.warning("redis_unreachable", error_class=type(error).__name__, effect="rates of this process")
            else:
                return None if wait_sec is None else max(1, math.ceil(wait_sec))
        return self._local.take(user, None)
