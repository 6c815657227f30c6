"""News of the inbox as server-sent events (HTML Living Standard, section 9.2), for browsers, which send no header.

The stream only says what the inbox holds already: what a lost connection missed comes with the next one, by
`Last-Event-ID`. Works across replicas, because signals come from Redis and entries from their store.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from services.me.inbox import InboxReader, InvalidCursorError, cursor_of, parse_cursor
from shared.core.inbox import InboxStore, Position
from shared.redis_store.inbox_signal import InboxSignals
from shared.runtime.error import OperatorError
from shared.runtime.logs import get_logger
from shared.runtime.service import Stop

_log = get_logger(__name__)

HEARTBEAT_SEC: Final = 15.0
"""How often a stream says something at least: proxies close what is silent for a minute, and without Redis this is how
often it looks for news."""
_RETRY_MS: Final = 3000
_BATCH: Final = 50
_PING: Final = b": ping\n\n"
_LATE_COMMIT: Final = timedelta(seconds=10)
"""How long a decision's transaction may take to commit and still be told in its order's place."""
_EARLIEST: Final = datetime(1971, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """per_user: streams of one user in this process; heartbeat_sec as HEARTBEAT_SEC."""

    per_user: int = 5
    heartbeat_sec: float = HEARTBEAT_SEC


class InboxStreams:
    """The streams of one process. clock returns seconds since the epoch, as tokens count."""

    def __init__(
        self,
        reader: InboxReader,
        store: InboxStore,
        signals: InboxSignals,
        stop: Stop,
        limits: StreamLimits,
        clock: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._store = store
        self._signals = signals
        self._stop = stop
        self._limits = limits
        self._clock = clock
        self._open: Counter[int] = Counter()

    @property
    def open(self) -> int:
        return self._open.total()

    def has_room(self, user_id: int) -> bool:
        """Whether the user may open another."""
        return self._open[user_id] < self._limits.per_user

    async def events(self, user_id: int, expires_at: float, last_event_id: str | None) -> AsyncIterator[bytes]:
        """The stream: first the unread count, then every entry as it comes and every change of the count.

        Starts after `last_event_id`, or now where there is none or it is none of ours. Ends with the token's life, at
        a stop of the service, and when the inbox cannot be read: the browser comes again by itself.
        """
        with self._counted(user_id):
            async with self._signals.listen(user_id) as news:
                try:
                    yield f"retry: {_RETRY_MS}\n\n".encode()
                    tail = await self._tail(user_id, last_event_id)
                    unread: int | None = None
                    while True:
                        news.clear()  # before reading: what comes meanwhile is looked for again
                        async for event in tail.news():
                            yield event
                        count = await self._store.unread(user_id)
                        if count != unread:
                            unread = count
                            yield _event("unread", {"unread": count})
                        left_sec = expires_at - self._clock()
                        if left_sec <= 0 or self._stop.requested:
                            return
                        if not await self._wait(news, min(self._limits.heartbeat_sec, left_sec)):
                            yield _PING
                except OperatorError as error:
                    _log.warning("stream_ended", reason=type(error).__name__)

    async def _tail(self, user_id: int, last_event_id: str | None) -> "_Tail":
        end: Position | None = None
        if last_event_id:
            with suppress(InvalidCursorError):
                end = parse_cursor(last_event_id)
        tail = _Tail(self._reader, user_id, end or await self._reader.newest(user_id))
        await tail.skip_known()
        return tail

    async def _wait(self, news: asyncio.Event, seconds: float) -> bool:
        """Until a signal or the stop; False when the time ran out."""
        waits = [asyncio.ensure_future(news.wait()), asyncio.ensure_future(self._stop.wait())]
        try:
            done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return bool(done)

    @contextmanager
    def _counted(self, user_id: int) -> Iterator[None]:
        self._open[user_id] += 1
        try:
            yield
        finally:
            self._open[user_id] -= 1
            if not self._open[user_id]:
                del self._open[user_id]


class _Tail:
    """Reads an inbox from its end on. Entries carry the time of their decision and become visible when it commits, so
    one may appear a little before the end: the last seconds are read again each time, and what was told is remembered.
    """

    def __init__(self, reader: InboxReader, user_id: int, end: Position) -> None:
        self._reader = reader
        self._user_id = user_id
        self._end = end
        self._told: set[Position] = set()

    async def skip_known(self) -> None:
        """Take all up to the end as told."""
        async for position, _ in self._entries():
            if position <= self._end:
                self._told.add(position)

    async def news(self) -> AsyncIterator[bytes]:
        """Events of what was not told yet, oldest first."""
        async for position, body in self._entries():
            if position not in self._told:
                self._told.add(position)
                self._end = max(self._end, position)
                yield _event("notification", body, cursor_of(self._end))
        horizon = self._horizon()
        self._told = {position for position in self._told if position > horizon}

    async def _entries(self) -> AsyncIterator[tuple[Position, Mapping[str, Any]]]:
        start = self._horizon()
        while entries := await self._reader.news(self._user_id, start, limit=_BATCH):
            for entry in entries:
                yield entry
            start = entries[-1][0]

    def _horizon(self) -> Position:
        return Position(max(self._end.created_at, _EARLIEST) - _LATE_COMMIT, UUID(int=0))


def _event(name: str, body: Mapping[str, Any], identifier: str | None = None) -> bytes:
    """One event. JSON holds no line break, so one data line is enough."""
    head = f"event: {name}\n" if identifier is None else f"id: {identifier}\nevent: {name}\n"
    return head.encode() + b"data: " + orjson.dumps(body) + b"\n\n"
