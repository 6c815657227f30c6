"""The producer: batches in, acknowledgements out.

librdkafka's own threads do the network; nothing here blocks. Delivery reports are served by `poll(0)` on the event
loop while something is outstanding: a poll thread of our own would fight the loop for the interpreter lock at every
single report (measured: 117 k records/s with a thread, 277 k so).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from shared.kafka.code import ALL_BROKERS_DOWN, MISSING, PERMANENT, PURGED, is_fatal
from shared.kafka.error import PublishError
from shared.kafka.metrics import MetricsObserver
from shared.kafka.observer import KafkaObserver
from shared.kafka.record import Publisher, Record
from shared.kafka.settings import KafkaSettings, producer_options
from shared.runtime.logs import get_logger

__all__ = ["Producer", "PublishError", "Publisher", "Record"]

_log = get_logger(__name__)

_SERVE_BUSY_SEC: Final = 0.001  # below linger_ms, so that serving adds little to an acknowledgement
_SERVE_IDLE_SEC: Final = 0.25  # log lines and broker state
_YIELD_EVERY: Final = 500  # records enqueued before the loop gets its turn: about a millisecond
_PROBE_SEC: Final = 1.0


class _Batch:
    """The delivery reports of one publish, gathered by one future."""

    __slots__ = ("failed", "fatal", "pending", "permanent", "settled")

    def __init__(self, size: int, settled: asyncio.Future[None]) -> None:
        self.pending = size
        self.settled = settled
        self.failed: list[tuple[int, str]] = []
        self.permanent: set[int] = set()
        self.fatal = False

    def report(self, index: int, topic: str, error: KafkaError | None, _message: object = None) -> None:
        """One record's fate; called by the client, on the event loop."""
        if error is not None:
            self.failed.append((index, _reason(error, topic)))
            self.fatal = self.fatal or is_fatal(error) or error.code() in PURGED
            if error.code() in PERMANENT:
                self.permanent.add(index)
        self.pending -= 1
        if self.pending == 0 and not self.settled.done():
            self.settled.set_result(None)


def _reason(error: KafkaError, topic: str) -> str:
    if error.code() in MISSING:
        return f"topic {topic} or its partition does not exist: create it with `ulak topics apply`"
    return f"{error.name()}: {error.str()}"


class _Handle:
    """One client and whether it has died. A dead one is served until its last report, then closed."""

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        self.up = False
        self.dead = False
        self.client = confluent_kafka.Producer(producer_options(settings, name) | {"error_cb": self._on_error})

    def serve(self) -> None:
        """Deliver reports, errors and logs. The client raises its death here instead of calling `error_cb`."""
        try:
            self.client.poll(0)
        except KafkaException as exception:
            if not self.found_dead(exception):
                _log.exception("producer_client_error")

    def found_dead(self, exception: KafkaException) -> bool:
        """Whether this is the client's death (K11). Everything it still holds fails then, by its last reports."""
        error = exception.args[0]
        if not is_fatal(error):
            return False
        if not self.dead:
            self.dead, self.up = True, False
            _log.error("producer_fatal_error", error=error.name(), reason=error.str())
            self.client.purge(in_queue=True, in_flight=True, blocking=False)
        return True

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == ALL_BROKERS_DOWN:
            self.up = False
            _log.warning("kafka_unreachable", client="producer")


class Producer:
    """Idempotent, acks=all. Belongs to the event loop that opened it; not for other threads."""

    def __init__(self, settings: KafkaSettings, *, name: str, observer: KafkaObserver | None = None) -> None:
        """Connect in the background; raises UnsafeOptionError for options that lose or repeat messages. Use `open`."""
        self._settings = settings
        self._name = name
        self._names = settings.names
        self._observer = observer or MetricsObserver()
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        # Blocking calls (metadata probe, close) of this client only; never the shared default executor.
        self._executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix=f"kafka-producer-{name}")
        self._handle = _Handle(settings, name)
        self._dying: list[_Handle] = []
        self._closing: set[asyncio.Future[bool]] = set()
        self._timer = self._loop.call_later(_SERVE_IDLE_SEC, self._serve)
        self._timer_is_busy = False
        self._prober = asyncio.create_task(self._probe())

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: KafkaSettings, *, name: str, observer: KafkaObserver | None = None
    ) -> AsyncIterator["Producer"]:
        """A producer for the length of the block. It does not wait for a broker: `ready()` tells.

        On leaving, what is still queued gets up to `delivery_timeout_ms` to be acknowledged.
        """
        producer = cls(settings, name=name, observer=observer)
        try:
            yield producer
        finally:
            await producer._close()

    def ready(self) -> bool:
        """Whether a broker answered since it was last found unreachable."""
        return self._handle.up and not self._handle.dead

    def queued(self) -> int:
        """Records not yet acknowledged."""
        return len(self._handle.client)

    async def publish(self, records: Sequence[Record]) -> None:
        """Return when the broker has acknowledged every record, in one round for all.

        A full local queue means waiting, with the same record next (K9). Raises PublishError with the indexes that
        were not acknowledged; all others were. Order per key is kept within one publish.
        """
        if not records:
            return
        batch = await self._enqueue(records)
        await batch.settled
        self._account(records, batch)
        if batch.failed:
            raise PublishError(batch.failed, permanent=frozenset(batch.permanent), fatal=batch.fatal)

    async def try_publish(self, records: Sequence[Record]) -> bool:
        """True when all are acknowledged. False if not: at once, with nothing queued, when no broker answers or the
        queue has no room.

        For callers with a row to fall back on (ingest): never raises for what the queue or the broker says.
        """
        room = self._settings.queue_buffering_max_messages - self.queued()
        if len(records) > room:
            self._observer.queue_full()
            return False
        if not self.ready():
            return False
        try:
            await self.publish(records)
        except PublishError as error:
            _log.warning("fast_publish_failed", records=len(error.failed), reason=error.failed[0][1])
            return False
        return True

    async def _enqueue(self, records: Sequence[Record]) -> _Batch:
        batch = _Batch(len(records), self._loop.create_future())
        for index, record in enumerate(records):
            if index % _YIELD_EVERY == _YIELD_EVERY - 1:
                self._hurry()
                await asyncio.sleep(0)
            report = partial(batch.report, index, record.topic)
            while not self._offer(record, report):
                await self._room.wait()
        self._hurry()
        return batch

    def _offer(self, record: Record, report: Callable[..., None]) -> bool:
        """Queue one record, or report why it can never be; False while there is no room for it.

        A handle found dead is replaced: the record was not in its hands yet.
        """
        while True:
            handle = self._live_handle()
            try:
                handle.client.produce(
                    self._names.full(record.topic),
                    record.value,
                    record.key,
                    on_delivery=report,
                    headers=list(record.headers),
                )
            except BufferError:
                self._observer.queue_full()
                self._room.clear()
                self._hurry()
                return False
            except KafkaException as exception:
                if not handle.found_dead(exception):
                    report(exception.args[0])
                    return True
            else:
                return True

    def _live_handle(self) -> _Handle:
        if self._handle.dead:
            self._replace()
        return self._handle

    def _replace(self) -> None:
        self._dying.append(self._handle)
        self._handle = _Handle(self._settings, self._name)
        self._handle.up = True  # the broker that refused the old one was there
        self._observer.producer_replaced()
        _log.warning("producer_replaced", producer=self._name)

    def _account(self, records: Sequence[Record], batch: _Batch) -> None:
        failed = Counter([records[index].topic for index in {index for index, _ in batch.failed}])
        published = Counter([record.topic for record in records]) - failed
        if published:
            self._handle.up = True
        for topic, count in published.items():
            self._observer.published(topic, count)
        for topic, count in failed.items():
            self._observer.publish_failed(topic, count)

    def _serve(self) -> None:
        """Serve delivery reports, errors and logs, and come back: soon while something is outstanding."""
        self._handle.serve()
        if self._handle.dead:
            # Also without a next publish: its reports must come, and readiness must be able to return.
            self._replace()
        for handle in tuple(self._dying):
            handle.serve()
            if len(handle.client) == 0:
                self._dying.remove(handle)
                self._retire(handle)
        self._room.set()
        busy = len(self._handle.client) > 0 or bool(self._dying)
        self._timer_is_busy = busy
        self._timer = self._loop.call_later(_SERVE_BUSY_SEC if busy else _SERVE_IDLE_SEC, self._serve)

    def _hurry(self) -> None:
        if not self._timer_is_busy:
            self._timer.cancel()
            self._timer_is_busy = True
            self._timer = self._loop.call_later(_SERVE_BUSY_SEC, self._serve)

    def _retire(self, handle: _Handle) -> None:
        closing = self._loop.run_in_executor(self._executor, handle.client.close)
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _probe(self) -> None:
        """Find out that a broker is (again) there, without traffic of our own: readiness must be able to return."""
        while True:
            handle = self._handle
            if not handle.up:
                try:
                    await self._loop.run_in_executor(self._executor, partial(handle.client.list_topics, timeout=2.0))
                except KafkaException as exception:
                    _log.info("kafka_not_yet_reachable", producer=self._name, error=exception.args[0].name())
                else:
                    handle.up = True
            await asyncio.sleep(_PROBE_SEC)

    async def _close(self) -> None:
        self._prober.cancel()
        await asyncio.gather(self._prober, return_exceptions=True)
        deadline = self._loop.time() + self._settings.delivery_timeout_ms / 1000
        await self._await_reports(deadline)
        if self.queued():
            _log.error("producer_closed_with_records", producer=self._name, records=self.queued())
            self._handle.client.purge(in_queue=True, in_flight=True, blocking=False)
            await self._await_reports(self._loop.time() + _PROBE_SEC)
        self._timer.cancel()
        for handle in (self._handle, *self._dying):
            self._retire(handle)
        await asyncio.gather(*self._closing)
        self._executor.shutdown(wait=False)

    async def _await_reports(self, deadline: float) -> None:
        """Until nothing is outstanding, or the loop's clock passes the deadline."""
        while self.queued() and self._loop.time() < deadline:
            self._room.clear()
            self._hurry()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._room.wait()
