"""Something came into a user's inbox: told from whoever wrote it to the process where that user's app listens.

A signal says "look", never what: the inbox is read from its store. So a lost one costs time and nothing else, and
without Redis a listener looks as often as it would anyway (its heartbeat).
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

import structlog
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

_log = structlog.get_logger(__name__)

_SILENCE_SEC: Final = 5.0
"""A connection that is silent for so long is asked for a sign of life, and given up if none comes in as long again."""


async def signal_inbox(redis: Redis | None, key_prefix: str, user_ids: Collection[int]) -> None:
    """Tell whoever listens for these users, after the commit; one round trip. Never raises for Redis' sake."""
    if redis is None or not user_ids:
        return
    try:
        async with redis.pipeline(transaction=False) as pipeline:
            for user_id in user_ids:
                pipeline.publish(_channel(key_prefix, user_id), b"")
            await pipeline.execute()
    except RedisError as error:
        _log.warning("inbox_not_signalled", users=len(user_ids), error_class=type(error).__name__)


class InboxSignals:
    """Signals of the users whose apps listen in this process, over one connection. Call from one event loop."""

    def __init__(self, redis: Redis, key_prefix: str, *, retry_sec: float) -> None:
        self._redis = redis
        self._prefix = key_prefix
        self._retry_sec = retry_sec
        self._listeners: dict[bytes, set[asyncio.Event]] = {}
        self._subscription: PubSub | None = None

    @asynccontextmanager
    async def listen(self, user_id: int) -> AsyncIterator[asyncio.Event]:
        """An event that is set by every signal, and whenever one may have been missed; the listener clears it."""
        channel, event = _channel(self._prefix, user_id).encode(), asyncio.Event()
        listeners = self._listeners.setdefault(channel, set())
        listeners.add(event)
        if len(listeners) == 1:
            await self._tell_server(subscribe=channel)
        try:
            yield event
        finally:
            listeners.discard(event)
            if not listeners:
                self._listeners.pop(channel, None)
                await self._tell_server(unsubscribe=channel)

    async def run(self) -> None:
        """Receive until cancelled, through whatever happens to Redis."""
        while True:
            try:
                await self._receive()
            except RedisError as error:
                _log.warning("inbox_signals_deaf", error_class=type(error).__name__, effect="apps see news later")
            self._subscription = None
            await asyncio.sleep(self._retry_sec)

    async def _receive(self) -> None:
        async with self._redis.pubsub() as subscription:
            # A channel of nobody's keeps the connection subscribed while no app listens.
            await subscription.subscribe(f"{self._prefix}inbox", *(channel.decode() for channel in self._listeners))
            self._subscription = subscription
            self._wake_all()
            asked = False
            while True:
                message = await subscription.get_message(timeout=_SILENCE_SEC)
                if message is not None:
                    asked = False
                    if message["type"] == "message":
                        self._wake(message["channel"])
                elif asked:
                    _log.warning("inbox_signals_silent", effect="subscribing anew")
                    return
                else:
                    await subscription.ping()
                    asked = True

    async def _tell_server(self, *, subscribe: bytes | None = None, unsubscribe: bytes | None = None) -> None:
        """Without a connection there is nobody to tell: the next one subscribes to all that is listened to."""
        if self._subscription is None:
            return
        try:
            if subscribe is not None:
                await self._subscription.subscribe(subscribe.decode())
            if unsubscribe is not None:
                await self._subscription.unsubscribe(unsubscribe.decode())
        except RedisError as error:
            _log.warning("inbox_signals_deaf", error_class=type(error).__name__, effect="apps see news later")

    def _wake(self, channel: bytes) -> None:
        for event in self._listeners.get(channel, ()):
            event.set()

    def _wake_all(self) -> None:
        for listeners in self._listeners.values():
            for event in listeners:
                event.set()


@asynccontextmanager
async def receiving(signals: InboxSignals) -> AsyncIterator[None]:
    """The signals at work for the length of the block."""
    task = asyncio.create_task(signals.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _channel(key_prefix: str, user_id: int) -> str:
    return f"{key_prefix}inbox:{user_id}"
