"""The thread that owns one confluent Consumer: poll, pause, resume, commit and rebalance all happen in it (K5).

It shares the backlog with the event loop under one lock, held only for bookkeeping. The loop takes batches and gives
results back; the thread never runs a handler, so polling goes on however long handlers take (K2).
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, Generic, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from shared.kafka.backlog import Backlog, Entry
from shared.kafka.committer import Committer
from shared.kafka.error import ConsumerFailedError
from shared.kafka.intake import BufferLimits, PauseReason, idle_poll_sec, plan_intake
from shared.kafka.observer import KafkaObserver
from shared.kafka.position import PositionWatch, log_bounds
from shared.kafka.reader import Reader
from shared.kafka.record import Partition
from shared.kafka.settings import KafkaSettings, consumer_options
from shared.kafka.vitals import Vitals
from shared.runtime.logs import get_logger

T = TypeVar("T")

_log = get_logger(__name__)

_PAUSED_POLL_SEC: Final = 0.02
_FULL_WAIT_SEC: Final = 0.25
"""How long a full buffer is waited for before the partitions are paused: a pause throws away librdkafka's read-ahead,
and most waits are shorter. Far below any max.poll.interval."""
_WATCH_EVERY_SEC: Final = 5.0


class Poller(Generic[T]):
    """One member of one group. `run` is the thread's body; the other methods are for the event loop."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        group: str,
        topics: Sequence[str],
        reader: Reader[T],
        limits: BufferLimits,
        poll_size: int,
        drain_sec: float,
        observer: KafkaObserver,
        clock: Callable[[], datetime],
        resting: Callable[[], bool],
        wake: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        """Raises UnsafeOptionError for options that could lose messages.

        Called from this thread: wake when there may be work, give_up when batches should look which entries are live.
        resting: asked from both threads; while it says so, nothing is read and nothing handed out.
        """
        self._settings = settings
        self._names = settings.names
        self._group = group
        self._topics = tuple(topics)
        self._reader = reader
        self._limits = limits
        self._poll_size = poll_size
        self._drain_sec = drain_sec
        self._observer = observer
        self._clock = clock
        self._resting = resting
        self._wake = wake
        self._give_up = give_up
        self._lock = threading.Condition()
        self._backlog: Backlog[T] = Backlog()
        self._committer = Committer(
            self._names,
            group,
            self._backlog,
            self._lock,
            observer,
            interval_sec=settings.commit_interval_ms / 1000,
        )
        self.vitals = Vitals(self._names, group, self._topics)
        self._positions = PositionWatch(self._names, group, observer)
        self._options = consumer_options(settings, group) | {
            "error_cb": self.vitals.on_error,
            "on_commit": self._committer.on_commit,
        }
        self._paused: frozenset[Partition] = frozenset()
        self._waiting: Counter[tuple[str, PauseReason]] = Counter()
        self._full = False
        self._stopping = False
        self._drain_deadline: float | None = None
        self._next_watch = 0.0
        self._last_message = time.monotonic()
        self.dead_letters_failing = False
        self.joined = False
        self.failure: BaseException | None = None
        self.finished = False

    # -- for the event loop ------------------------------------------------------------------------------------------

    def take(self, limit: int) -> list[Entry[T]]:
        """The next batch, or nothing; while dead letters cannot be written, it stops or rests, always nothing."""
        with self._lock:
            if self._stopping or self.dead_letters_failing or self._resting():
                return []
            batch = self._backlog.take(limit, self._clock())
            if batch:
                self._lock.notify_all()
            return batch

    def live(self, entries: Sequence[Entry[T]]) -> list[Entry[T]]:
        """Those whose partition is still ours and not being given up; the others are released."""
        with self._lock:
            live = self._backlog.live(entries)
            if len(live) < len(entries):
                kept = set(map(id, live))
                self._backlog.release([entry for entry in entries if id(entry) not in kept])
                self._lock.notify_all()
            return live

    def finish(self, entries: Sequence[Entry[T]]) -> None:
        """The effects of these are durable."""
        with self._lock:
            self._backlog.finish(entries)
            self._lock.notify_all()

    def release(self, entries: Sequence[Entry[T]]) -> None:
        """These are given up undone."""
        with self._lock:
            self._backlog.release(entries)
            self._lock.notify_all()

    def stop(self) -> None:
        """Begin the bounded drain; returns at once."""
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._drain_deadline = time.monotonic() + self._drain_sec
            self._lock.notify_all()

    def assignment(self) -> Mapping[Partition, int | None]:
        """The partitions read, each with its low-water offset (None: nothing finished yet)."""
        with self._lock:
            return self._backlog.low_waters()

    def paused(self) -> frozenset[Partition]:
        """The partitions that are assigned and paused."""
        return self._paused

    @property
    def stopping(self) -> bool:
        return self._stopping

    # -- the thread --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Join the group, poll until `stop`, drain, commit, leave. Ends `finished`, with `failure` after an error."""
        try:
            self._live()
        except KafkaException as exception:
            self.failure = ConsumerFailedError(f"consumer of group {self._group}: {exception.args[0].str()}")
            self.failure.__cause__ = exception
        except BaseException as error:  # noqa: BLE001 - handed to the event loop, which raises it
            self.failure = error
        finally:
            with self._lock:
                self._stopping = self.finished = True
                self._lock.notify_all()
            self._wake()

    def _live(self) -> None:
        consumer = confluent_kafka.Consumer(self._options)
        try:
            if not self.vitals.await_topics(consumer, lambda: self._stopping):
                return
            consumer.subscribe(
                [self._names.full(topic) for topic in self._topics],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            while not self._stopping:
                self._turn(consumer)
            self._drain(consumer)
        finally:
            self._stopping = True
            consumer.close()

    def _turn(self, consumer: confluent_kafka.Consumer) -> None:
        full = self._wait_for_room(self._clock())
        now = self._clock()
        with self._lock:
            self._look_again_at_held(now)
            plan = plan_intake(
                self._backlog.states(),
                self._paused,
                now,
                full=full,
                dead_letters_failing=self.dead_letters_failing,
                resting=self._resting(),
            )
            has_work = self._backlog.buffered > 0 or self._backlog.in_flight() > 0
        self._pause(consumer, plan.pause)
        self._resume(consumer, plan.resume)
        self._report_waiting(plan.reasons)
        self._committer.commit_if_due(consumer)
        self._watch(consumer)
        quiet_sec = time.monotonic() - self._last_message
        timeout = _PAUSED_POLL_SEC if full else idle_poll_sec(quiet_sec=quiet_sec, has_work=has_work)
        if plan.look_again_at is not None:
            timeout = min(timeout, max((plan.look_again_at - now).total_seconds(), 0.001))
        arrived = self._receive(consumer, timeout)
        if arrived or plan.resume or plan.look_again_at is not None:
            self._wake()

    def _wait_for_room(self, now: datetime) -> bool:
        """Whether enough work is at hand, also after a short wait for the handlers to take from it."""
        with self._lock:
            resting, self._full = self._full, self._is_full(now)
            if self._full and not resting:
                self._lock.wait_for(lambda: self._stopping or not self._is_full(now), _FULL_WAIT_SEC)
                self._full = self._is_full(now)
            return self._full

    def _is_full(self, now: datetime) -> bool:
        return self._limits.full(self._backlog.workable(now), was_full=self._full)

    def _look_again_at_held(self, now: datetime) -> None:
        for entry in self._backlog.held_due(now):
            self._reader.read(entry, now)
            if entry.held:
                self._alarm_held(entry)

    def _alarm_held(self, entry: Entry[T]) -> None:
        self._observer.partition_held(entry.partition.topic, entry.partition.number)
        _log.error(
            "partition_held",
            topic=entry.partition.topic,
            partition=entry.partition.number,
            offset=entry.offset,
            remedy="the message was written by a newer release: upgrade this service, it continues from this offset",
        )

    def _pause(self, consumer: confluent_kafka.Consumer, partitions: Sequence[Partition]) -> None:
        if partitions:
            consumer.pause(self._native(partitions))
            self._paused |= set(partitions)

    def _resume(self, consumer: confluent_kafka.Consumer, partitions: Sequence[Partition]) -> None:
        if partitions:
            consumer.resume(self._native(partitions))
            self._paused -= set(partitions)

    def _report_waiting(self, reasons: Mapping[Partition, PauseReason]) -> None:
        waiting = Counter((partition.topic, reason) for partition, reason in reasons.items())
        if waiting != self._waiting:
            for topic, reason in waiting.keys() | self._waiting.keys():
                self._observer.waiting(topic, reason, waiting[topic, reason])
            self._waiting = waiting

    def _receive(self, consumer: confluent_kafka.Consumer, timeout: float) -> bool:
        """One poll: wait for a first message, then take what else is there. consume() alone would wait for a full
        batch.
        """
        first = consumer.poll(timeout)
        if first is None:
            return False
        messages = [first, *consumer.consume(self._poll_size - 1, timeout=0)] if self._poll_size > 1 else [first]
        now = self._clock()
        self._last_message = time.monotonic()
        entries: list[Entry[T]] = []
        seen: dict[tuple[str | None, int | None], Partition] = {}
        for message in messages:
            error = message.error()
            if error is not None:
                self.vitals.on_message_error(error, message.topic())
                continue
            where = (message.topic(), message.partition())
            partition = seen.get(where)
            entry_partition = partition or Partition(self._names.bare(where[0] or ""), where[1] or 0)
            entry = self._reader.entry(entry_partition, message, now)
            if partition is None:
                seen[where] = entry_partition
                self._check_position(consumer, entry, now)
            entries.append(entry)
        with self._lock:
            for entry in entries:
                if not self._stopping and self._backlog.add(entry) and entry.held:
                    self._alarm_held(entry)
        self.vitals.reachable = True
        return bool(entries)

    def _check_position(self, consumer: confluent_kafka.Consumer, entry: Entry[T], now: datetime) -> None:
        with self._lock:
            expected = self._backlog.expected(entry.partition)
        if expected is None:
            self._positions.first(consumer, entry.partition, entry.offset, entry.timestamp, now)
        elif entry.offset < expected:
            self._positions.rewound(entry.partition, expected, entry.offset)
        elif entry.offset > expected:
            self._positions.gap(consumer, entry.partition, expected, entry.offset, now)

    def _watch(self, consumer: confluent_kafka.Consumer) -> None:
        """Now and then: lag for the metrics, and whether a broker or topic that was lost is back."""
        self.vitals.require_alive()
        if time.monotonic() < self._next_watch:
            return
        self._next_watch = time.monotonic() + _WATCH_EVERY_SEC
        lag = dict.fromkeys(self._topics, 0)
        for partition, low_water in self.assignment().items():
            bounds = log_bounds(consumer, self._native([partition])[0], cached=True)
            position = self._positions.committed(partition) if low_water is None else low_water
            if bounds is not None and bounds[1] >= 0:
                lag[partition.topic] += max(bounds[1] - (bounds[0] if position is None else position), 0)
        for topic, messages in lag.items():
            self._observer.lag(topic, messages)
        self.vitals.look(consumer)

    def _drain(self, consumer: confluent_kafka.Consumer) -> None:
        """Wait, polling, for what is in flight; commit. Leaving the group follows in close()."""
        with self._lock:
            partitions = self._backlog.partitions
            self._backlog.drain(partitions)
        self._give_up()
        self._pause(consumer, [partition for partition in partitions if partition not in self._paused])
        while self._in_flight() and time.monotonic() < (self._drain_deadline or 0.0):
            consumer.poll(_PAUSED_POLL_SEC)
        self._committer.commit_now(consumer)

    def _in_flight(self) -> int:
        with self._lock:
            return self._backlog.in_flight()

    # -- callbacks of the client, inside poll(), consume() and close() -----------------------------------------------

    def _on_assign(self, consumer: confluent_kafka.Consumer, natives: list[TopicPartition]) -> None:
        partitions = self._bare(natives)
        self._positions.assigned(consumer, natives)
        with self._lock:
            self._backlog.assign(partitions)
        self._paused -= set(partitions)
        self.joined = True
        self._observer.rebalanced(self._group, "assigned", len(partitions))
        _log.info("partitions_assigned", group=self._group, partitions=len(partitions))

    def _on_revoke(self, consumer: confluent_kafka.Consumer, natives: list[TopicPartition]) -> None:
        """Give partitions up: bounded wait for what is in flight (K3), commit the low-water offsets, forget them."""
        partitions = set(self._bare(natives))
        deadline = time.monotonic() + self._drain_sec
        if self._drain_deadline is not None:
            deadline = min(deadline, self._drain_deadline)
        with self._lock:
            self._backlog.drain(partitions)
            self._give_up()  # batches that wait for another try leave these partitions out
            self._lock.wait_for(lambda: self._backlog.in_flight(partitions) == 0, max(deadline - time.monotonic(), 0.0))
        self._committer.commit_now(consumer, partitions)
        self._forget(partitions, "revoked")

    def _on_lost(self, _consumer: confluent_kafka.Consumer, natives: list[TopicPartition]) -> None:
        """The partitions already belong to others: forget them, commit nothing (K4)."""
        self._forget(set(self._bare(natives)), "lost")
        self._give_up()

    def _forget(self, partitions: set[Partition], kind: str) -> None:
        with self._lock:
            abandoned = self._backlog.in_flight(partitions)
            self._backlog.drop(partitions)
        self._paused -= partitions
        self._observer.rebalanced(self._group, kind, len(partitions))
        if abandoned:
            self._observer.work_abandoned(self._group, abandoned)
        level = _log.warning if abandoned or kind == "lost" else _log.info
        level(f"partitions_{kind}", group=self._group, partitions=len(partitions), unfinished_messages=abandoned)

    def _native(self, partitions: Collection[Partition]) -> list[TopicPartition]:
        return [TopicPartition(self._names.full(partition.topic), partition.number) for partition in partitions]

    def _bare(self, natives: Sequence[TopicPartition]) -> list[Partition]:
        return [Partition(self._names.bare(native.topic), native.partition) for native in natives]
