"""Commits of one consumer: asynchronous at an interval, synchronous before a partition is given up. Never a crash (K4).

An offset that could not be committed is asked for again with the next one; what is worked on twice meanwhile is the
promise (at least once), not a fault.
"""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from shared.kafka.backlog import Backlog
from shared.kafka.code import FENCED, NO_OFFSET
from shared.kafka.observer import KafkaObserver
from shared.kafka.record import Partition
from shared.runtime.logs import get_logger
from shared.wire.topic import TopicNames

_log = get_logger(__name__)


class Committer:
    """Belongs to the poll thread; shares the backlog under its lock."""

    def __init__(
        self,
        names: TopicNames,
        group: str,
        backlog: Backlog[Any],
        lock: threading.Condition,
        observer: KafkaObserver,
        *,
        interval_sec: float,
    ) -> None:
        self._names = names
        self._group = group
        self._backlog = backlog
        self._lock = lock
        self._observer = observer
        self._interval_sec = interval_sec
        self._next_at = 0.0

    def commit_if_due(self, consumer: confluent_kafka.Consumer) -> None:
        """Start a commit of what is new, at most once per interval."""
        if time.monotonic() < self._next_at:
            return
        with self._lock:
            offsets = self._backlog.to_commit()
        if not offsets:
            return
        self._next_at = time.monotonic() + self._interval_sec
        try:
            consumer.commit(offsets=self._native(offsets), asynchronous=True)
        except KafkaException as exception:
            self._failed(exception.args[0], offsets)

    def commit_now(self, consumer: confluent_kafka.Consumer, partitions: Collection[Partition] | None = None) -> None:
        """Commit what is new of some partitions, or of all, and wait for the answer."""
        with self._lock:
            # An asynchronous commit may still be on its way and fail: ask again for everything.
            self._backlog.commit_failed(self._backlog.partitions if partitions is None else partitions)
            offsets = self._backlog.to_commit(partitions)
        if not offsets:
            return
        try:
            answers = consumer.commit(offsets=self._native(offsets), asynchronous=False)
        except KafkaException as exception:
            self._failed(exception.args[0], offsets)
        else:
            self.on_commit(None, answers)

    def on_commit(self, error: KafkaError | None, answers: Sequence[TopicPartition]) -> None:
        """The client's callback for an asynchronous commit."""
        failed: dict[KafkaError, list[Partition]] = {}
        for answer in answers:
            problem = error or answer.error
            if problem is not None and problem.code() != NO_OFFSET:
                failed.setdefault(problem, []).append(Partition(self._names.bare(answer.topic), answer.partition))
        for problem, partitions in failed.items():
            self._failed(problem, partitions)

    def _failed(self, error: KafkaError, partitions: Collection[Partition]) -> None:
        with self._lock:
            self._backlog.commit_failed(partitions)
        self._observer.commit_failed(self._group, error.name())
        level = _log.warning if error.code() in FENCED else _log.error
        level("commit_failed", group=self._group, error=error.name(), partitions=len(partitions))

    def _native(self, offsets: Mapping[Partition, int]) -> list[TopicPartition]:
        return [
            TopicPartition(self._names.full(partition.topic), partition.number, offset)
            for partition, offset in offsets.items()
        ]
