"""The observer that feeds the metrics catalogue."""

from shared.runtime import metrics


class MetricsObserver:
    """Keeps the contract of `KafkaObserver`. What the catalogue has no name for is in the logs only."""

    def batch_handled(self, group: str, size: int, duration_sec: float) -> None:
        metrics.CONSUMER_BATCH_LATENCY.labels(group).observe(duration_sec)
        metrics.CONSUMED.labels(group).inc(size)

    def handler_failed(self, group: str, error_class: str) -> None:  # noqa: ARG002 - classes are unbounded as a label
        metrics.CONSUMER_RETRIES.labels(group).inc()

    def dead_lettered(self, topic: str, reason: str) -> None:
        metrics.DEAD_LETTERS.labels(topic, reason).inc()

    def dead_letter_write_failed(self, dlq_topic: str) -> None:
        metrics.DEAD_LETTER_WRITE_FAILURES.labels(dlq_topic).inc()

    def waiting(self, topic: str, reason: str, partitions: int) -> None:
        metrics.CONSUMER_HELD.labels(topic, reason).set(partitions)

    def partition_held(self, topic: str, partition: int) -> None:
        """Seen in `waiting` with the reason `held`."""

    def offsets_lost(self, topic: str, partition: int) -> None:  # noqa: ARG002 - the log line names the partition
        metrics.OFFSETS_LOST.labels(topic).inc()

    def commit_failed(self, group: str, error: str) -> None:
        metrics.COMMIT_FAILURES.labels(group, error).inc()

    def rebalanced(self, group: str, kind: str, partitions: int) -> None:
        metrics.PARTITIONS_MOVED.labels(group, kind).inc(partitions)

    def work_abandoned(self, group: str, messages: int) -> None:
        metrics.WORK_ABANDONED.labels(group).inc(messages)

    def lag(self, topic: str, messages: int) -> None:
        metrics.CONSUMER_LAG.labels(topic).set(messages)

    def published(self, topic: str, count: int) -> None:
        metrics.PRODUCED.labels(topic, "acknowledged").inc(count)

    def publish_failed(self, topic: str, count: int) -> None:
        metrics.PRODUCED.labels(topic, "failed").inc(count)

    def queue_full(self) -> None:
        metrics.PRODUCER_QUEUE_FULL.inc()

    def producer_replaced(self) -> None:
        metrics.PRODUCERS_REPLACED.inc()
