"""Watches where a partition's reading begins and jumps, so that expired or reset offsets raise an alert (K8).

The client itself resets to the earliest message without a word. What is read again is stopped by expiry and dedup.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from shared.kafka.observer import KafkaObserver
from shared.kafka.offsets import skipped, started_over
from shared.kafka.record import Partition
from shared.runtime.logs import get_logger
from shared.wire.topic import TopicNames

_log = get_logger(__name__)

_COMMITTED_TIMEOUT_SEC: Final = 5.0
_WATERMARK_TIMEOUT_SEC: Final = 1.0
_LOOK_EVERY_SEC: Final = 10.0
"""Gaps are normal where writers use transactions, so the log's start is asked for at most this often per partition."""


def log_bounds(
    consumer: confluent_kafka.Consumer, native: TopicPartition, *, timeout: float = 1.0, cached: bool = False
) -> tuple[int, int] | None:
    """First and next offset of a partition's log; None without an answer in time. Unknown (-1001) if not cached yet."""
    return consumer.get_watermark_offsets(native, timeout=timeout, cached=cached)


class PositionWatch:
    """Belongs to the poll thread."""

    def __init__(self, names: TopicNames, group: str, observer: KafkaObserver) -> None:
        self._names = names
        self._group = group
        self._observer = observer
        self._committed: dict[Partition, int | None] = {}
        self._looked_at: dict[Partition, datetime] = {}

    def assigned(self, consumer: confluent_kafka.Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Remember the group's committed offsets; without an answer nothing is judged."""
        try:
            committed = consumer.committed(list(partitions), timeout=_COMMITTED_TIMEOUT_SEC)
        except KafkaException as exception:
            _log.warning("committed_offsets_unknown", group=self._group, error=exception.args[0].name())
            committed = []
        for answer in committed:
            if answer.error is None:
                partition = Partition(self._names.bare(answer.topic), answer.partition)
                self._committed[partition] = answer.offset if answer.offset >= 0 else None

    def committed(self, partition: Partition) -> int | None:
        """The committed offset at assignment; None if there was none or it is not known."""
        return self._committed.get(partition)

    def first(
        self, consumer: confluent_kafka.Consumer, partition: Partition, offset: int, sent: datetime, now: datetime
    ) -> None:
        """Judge the first message of an assignment."""
        if partition not in self._committed:
            return
        committed = self._committed[partition]
        if started_over(committed, offset, (now - sent).total_seconds()):
            self._alert("offsets_missing", partition, committed, offset)
        elif committed is not None and offset < committed:
            self._alert("offsets_reset", partition, committed, offset)
        elif skipped(committed, offset):
            self.gap(consumer, partition, committed or 0, offset, now)

    def rewound(self, partition: Partition, expected: int, offset: int) -> None:
        """The client went back by itself: the log was cut or the topic made anew."""
        self._alert("offsets_reset", partition, expected, offset)

    def gap(
        self, consumer: confluent_kafka.Consumer, partition: Partition, expected: int, offset: int, now: datetime
    ) -> None:
        """Judge a jump forward: alert if the log now begins past the expected offset, so that messages are gone."""
        looked_at = self._looked_at.get(partition)
        if looked_at is not None and (now - looked_at).total_seconds() < _LOOK_EVERY_SEC:
            return
        self._looked_at[partition] = now
        native = TopicPartition(self._names.full(partition.topic), partition.number)
        try:
            bounds = log_bounds(consumer, native, timeout=_WATERMARK_TIMEOUT_SEC)
        except KafkaException as exception:
            _log.warning("log_start_unknown", group=self._group, error=exception.args[0].name())
            return
        if bounds is not None and bounds[0] > expected:
            self._alert("offsets_expired", partition, expected, offset)

    def _alert(self, event: str, partition: Partition, expected: int | None, offset: int) -> None:
        self._observer.offsets_lost(partition.topic, partition.number)
        _log.error(
            event,
            group=self._group,
            topic=partition.topic,
            partition=partition.number,
            expected_offset=expected,
            offset=offset,
        )
