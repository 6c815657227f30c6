"""Whether a consumer's surroundings are there: a broker answers, its topics exist, the client has not died.

Belongs to the poll thread; the event loop reads the fields.
"""

from collections.abc import Callable, Sequence

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from shared.kafka.code import ALL_BROKERS_DOWN, MAX_POLL_EXCEEDED, MISSING, is_fatal
from shared.kafka.error import ConsumerFailedError, MissingTopicError
from shared.runtime.logs import get_logger
from shared.wire.topic import TopicNames

_log = get_logger(__name__)


class Vitals:
    """`reachable`: a broker answered since none did. `missing`: bare names of subscribed topics that do not exist."""

    def __init__(self, names: TopicNames, group: str, topics: Sequence[str]) -> None:
        self.reachable = False
        self.missing: frozenset[str] = frozenset()
        self._names = names
        self._group = group
        self._topics = tuple(topics)
        self._fatal: KafkaError | None = None

    def await_topics(self, consumer: confluent_kafka.Consumer, stopping: Callable[[], bool]) -> bool:
        """Wait until a broker answers; MissingTopicError if it knows one of our topics not. False if stopped first."""
        while not stopping():
            self._ask(consumer, timeout=2.0)
            if self.missing:
                raise MissingTopicError([self._names.full(topic) for topic in sorted(self.missing)])
            if self.reachable:
                return True
        return False

    def look(self, consumer: confluent_kafka.Consumer) -> None:
        """Ask again if something was amiss."""
        if not self.reachable or self.missing:
            self._ask(consumer, timeout=1.0)

    def require_alive(self) -> None:
        """ConsumerFailedError after a fatal error that came in place of a message."""
        if self._fatal is not None:
            raise ConsumerFailedError(f"consumer of group {self._group}: {self._fatal.name()}: {self._fatal.str()}")

    def on_error(self, error: KafkaError) -> None:
        """The client's callback for what concerns no message; a fatal error it raises from poll() instead."""
        if error.code() == ALL_BROKERS_DOWN:
            self.reachable = False
        _log.warning("consumer_client_error", group=self._group, error=error.name(), reason=error.str())

    def on_message_error(self, error: KafkaError, full_topic: str | None) -> None:
        """An error that came in place of a message."""
        if is_fatal(error):
            self._fatal = error
        elif error.code() in MISSING:
            self.missing |= {self._names.bare(full_topic)} if full_topic else set(self._topics)
            _log.error("topic_missing", group=self._group, topic=full_topic, remedy="run `ulak topics apply`")
        elif error.code() == MAX_POLL_EXCEEDED:
            _log.error("max_poll_interval_exceeded", group=self._group, remedy="none: the member rejoins by itself")
        else:
            _log.error("consume_error", group=self._group, topic=full_topic, error=error.name(), reason=error.str())

    def _ask(self, consumer: confluent_kafka.Consumer, timeout: float) -> None:
        try:
            known = consumer.list_topics(timeout=timeout).topics
        except KafkaException as exception:
            _log.warning("kafka_unreachable", group=self._group, error=exception.args[0].name())
            return
        self.reachable = True
        self.missing = frozenset(topic for topic in self._topics if self._names.full(topic) not in known)
