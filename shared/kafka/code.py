"""librdkafka's error codes, grouped by what they mean to us.

Its client-side codes begin with an underscore, which is part of their public name.
"""
# ruff: noqa: SLF001 - see above

from typing import Final

from confluent_kafka import KafkaError

FATAL: Final = KafkaError._FATAL
ALL_BROKERS_DOWN: Final = KafkaError._ALL_BROKERS_DOWN
MAX_POLL_EXCEEDED: Final = KafkaError._MAX_POLL_EXCEEDED
NO_OFFSET: Final = KafkaError._NO_OFFSET
PARTITION_END: Final = KafkaError._PARTITION_EOF

PERMANENT: Final = frozenset(
    {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD, KafkaError._INVALID_ARG}
)
"""A record that no attempt can get through."""

MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""A topic or partition that does not exist."""

PURGED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""A record given up with its producer."""

FENCED: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._ASSIGNMENT_LOST,
    }
)
"""The group went on without us: the partitions are someone else's, the rejoin follows by itself."""


def is_fatal(error: KafkaError) -> bool:
    """Whether the client that reported this can never work again."""
    return error.fatal() or error.code() == FATAL
