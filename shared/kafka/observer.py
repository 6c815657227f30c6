"""What the Kafka clients report to metrics: the port. Log lines tell the same facts one by one."""

from typing import Protocol


class KafkaObserver(Protocol):
    """Counts and times of the clients. Called from the event loop and from consumer threads: be quick, never raise.

    topic is bare, group without prefix.
    """

    def batch_handled(self, group: str, size: int, duration_sec: float) -> None:
        """A handler returned."""
        ...

    def handler_failed(self, group: str, error_class: str) -> None:
        """A handler raised; its batch is tried again."""
        ...

    def dead_lettered(self, topic: str, reason: str) -> None:
        """A message of `topic` was dead-lettered and acknowledged."""
        ...

    def dead_letter_write_failed(self, dlq_topic: str) -> None:
        """Dead letters could not be written; their consumer rests until they can."""
        ...

    def waiting(self, topic: str, reason: str, partitions: int) -> None:
        """How many partitions of a topic are paused for a reason (intake.PauseReason); told when it changes."""
        ...

    def partition_held(self, topic: str, partition: int) -> None:
        """A partition stands at a message of a newer release; repeated while it does."""
        ...

    def offsets_lost(self, topic: str, partition: int) -> None:
        """A group's offsets or the messages after them are gone (K8)."""
        ...

    def commit_failed(self, group: str, error: str) -> None:
        """A commit was refused; it is asked for again."""
        ...

    def rebalanced(self, group: str, kind: str, partitions: int) -> None:
        """Partitions were assigned, revoked or lost."""
        ...

    def work_abandoned(self, group: str, messages: int) -> None:
        """Messages still worked on when their partition had to go; somebody works on them again."""
        ...

    def lag(self, topic: str, messages: int) -> None:
        """Messages between this member's low-water offsets and the end of its partitions."""
        ...

    def published(self, topic: str, count: int) -> None:
        """Records were acknowledged."""
        ...

    def publish_failed(self, topic: str, count: int) -> None:
        """Records were not acknowledged."""
        ...

    def queue_full(self) -> None:
        """The producer's local queue had no room."""
        ...

    def producer_replaced(self) -> None:
        """A producer died of a fatal error and was replaced (K11)."""
        ...
