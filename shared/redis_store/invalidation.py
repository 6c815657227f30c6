"""What was changed elsewhere is read anew here: one Redis pub/sub channel tells the caches of all processes.

Best effort: a message may be lost, and without Redis there is none. Every cache has a time to live of its own, and that
is the bound on staleness; this only makes it shorter.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import Any, Final

import orjson
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.runtime.metrics import INVALIDATION_LISTENING, INVALIDATIONS

_log = structlog.get_logger(__name__)

_SILENCE_SEC: Final = 5.0
"""A connection that is silent for so long is asked for a sign of life, and given up if none comes in as long again."""
_KEYS_PER_MESSAGE: Final = 1000
"""More keys (an import) are told as all keys: cheaper to read anew than to list."""


class Kind(StrEnum):
    """What was changed. CATALOGUE: types, templates, mappings, senders, caps; it is one reading and has no keys.
    PREFERENCES: keys are our `user_id`s.
    """

    CATALOGUE = "catalogue"
    PREFERENCES = "preferences"


Handler = Callable[[Sequence[str] | None], None]
"""Forgets these keys; None means everything."""


async def invalidate(redis: Redis | None, key_prefix: str, kind: Kind, keys: Collection[str | int] = ()) -> None:
    """Tell every process, after the commit, that something of this kind was changed; no keys means everything.

    Never raises for Redis' sake: nobody told means that the caches' time to live bounds it. redis None: nobody is.
    """
    if redis is None:
        return
    told = [] if len(keys) > _KEYS_PER_MESSAGE else [str(key) for key in keys]
    try:
        await redis.publish(_channel(key_prefix), orjson.dumps({"kind": kind, "keys": told}))
    except RedisError as error:
        _log.warning("invalidation_not_told", kind=kind, error_class=type(error).__name__)


class Listener:
    """Hands what `invalidate` tells to the caches of this process.

    Whatever could have been missed (before the first subscription, while the connection was away) is taken as changed:
    each time it has subscribed, all handlers forget everything.
    """

    def __init__(self, redis: Redis, key_prefix: str, handlers: Mapping[Kind, Handler], *, retry_sec: float) -> None:
        self._redis = redis
        self._channel = _channel(key_prefix)
        self._handlers = handlers
        self._retry_sec = retry_sec

    async def run(self) -> None:
        """Listen until cancelled, through whatever happens to Redis."""
        while True:
            try:
                await self._listen()
            except RedisError as error:
                _log.warning("invalidation_deaf", error_class=type(error).__name__, effect="caches live their time")
            INVALIDATION_LISTENING.set(0)
            await asyncio.sleep(self._retry_sec)

    async def _listen(self) -> None:
        async with self._redis.pubsub() as subscription:
            await subscription.subscribe(self._channel)
            asked = False
            while True:
                message = await subscription.get_message(timeout=_SILENCE_SEC)
                if message is not None:
                    asked = False
                    self._take(message)
                elif asked:
                    _log.warning("invalidation_silent", effect="subscribing anew")
                    return
                else:
                    await subscription.ping()
                    asked = True

    def _take(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "subscribe":
            INVALIDATION_LISTENING.set(1)
            for handler in self._handlers.values():
                handler(None)
        elif message["type"] == "message":
            self._forget(message["data"])

    def _forget(self, data: bytes) -> None:
        """A message of a release that knows more kinds, or of anyone else, is passed over."""
        try:
            told = orjson.loads(data)
            kind, keys = Kind(told["kind"]), [str(key) for key in told["keys"]]
        except (ValueError, TypeError, KeyError):
            _log.warning("invalidation_unknown", bytes=len(data))
            return
        INVALIDATIONS.labels(kind).inc()
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(keys or None)


@asynccontextmanager
async def listening(listener: Listener) -> AsyncIterator[None]:
    """The listener at work for the length of the block."""
    task = asyncio.create_task(listener.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _channel(key_prefix: str) -> str:
    return f"{key_prefix}invalidation"
