"""An in-memory producer that keeps the real one's contract (tests/contract/kafka), for tests of services."""

import asyncio
from collections.abc import Collection, Sequence

from shared.kafka.error import PublishError
from shared.kafka.record import Record

_MAX_MESSAGE_BYTES = 1_048_588


class InMemoryProducer:
    """Keeps acknowledged records in `records`, in order.

    topics: the topics that exist, or None for all. The broker can be taken away (`stall`, `resume`): publish then
    waits and try_publish answers False. More than `capacity` records at once do not fit try_publish, as with a full
    local queue. `fail_next(reason)` lets the next publish fail for all its records.
    """

    def __init__(self, *, topics: Collection[str] | None = None, capacity: int = 100_000) -> None:
        self.records: list[Record] = []
        self._topics = topics
        self._capacity = capacity
        self._queued = 0
        self._reachable = asyncio.Event()
        self._reachable.set()
        self._next_failure: tuple[str, bool] | None = None

    def stall(self) -> None:
        """Take the broker away: nothing is acknowledged until `resume`."""
        self._reachable.clear()

    def resume(self) -> None:
        """Bring the broker back: what waits is acknowledged."""
        self._reachable.set()

    def fail_next(self, reason: str, *, fatal: bool = False) -> None:
        """Let the next publish fail for all its records."""
        self._next_failure = (reason, fatal)

    def on(self, topic: str) -> list[Record]:
        """The acknowledged records of one topic."""
        return [record for record in self.records if record.topic == topic]

    def ready(self) -> bool:
        """Whether the broker is there."""
        return self._reachable.is_set()

    async def publish(self, records: Sequence[Record]) -> None:
        """As `Producer.publish`."""
        if not records:
            return
        self._queued += len(records)
        try:
            await self._reachable.wait()
        finally:
            self._queued -= len(records)
        if self._next_failure is not None:
            (reason, fatal), self._next_failure = self._next_failure, None
            raise PublishError([(index, reason) for index in range(len(records))], fatal=fatal)
        failed: list[tuple[int, str]] = []
        permanent: set[int] = set()
        for index, record in enumerate(records):
            if self._topics is not None and record.topic not in self._topics:
                failed.append(
                    (
                        index,
                        f"topic {record.topic} or its partition does not exist: create it with `ulak topics apply`",
                    )
                )
            elif len(record.value or b"") > _MAX_MESSAGE_BYTES:
                failed.append((index, "MSG_SIZE_TOO_LARGE: Broker: Message size too large"))
                permanent.add(index)
            else:
                self.records.append(record)
        if failed:
            raise PublishError(failed, permanent=frozenset(permanent))

    async def try_publish(self, records: Sequence[Record]) -> bool:
        """As `Producer.try_publish`."""
        if self._queued + len(records) > self._capacity or not self.ready():
            return False
        try:
            await self.publish(records)
        except PublishError:
            return False
        return True
