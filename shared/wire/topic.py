"""Every topic Ulak uses, declared once: name, partitions, retention. `ulak topics apply|check` works from this.

Names may carry an installation's prefix (`ULAK_KAFKA_TOPIC_PREFIX`), so that several stacks can share a broker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from shared.wire.channel import DEFAULT_CHANNELS, OTP_LANE, Channels, Lane, MessageClass

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS

DOMAIN_EVENTS: Final = "domain-events"
DELIVERY_RECEIPTS: Final = "delivery-receipts"
DELIVERY_EVENTS: Final = "delivery-events"
ROUTER_DLQ: Final = "router-dlq"
RECEIPTS_DLQ: Final = "receipts-dlq"


def notification_requests(message_class: MessageClass) -> str:
    """The router's input for one class; `low` shares the bulk topic (architecture.md section 3)."""
    shared = MessageClass.BULK if message_class is MessageClass.LOW else message_class
    return f"notification-requests-{shared.label}"


REQUEST_CLASSES: Final = (MessageClass.CRITICAL, MessageClass.TX, MessageClass.BULK)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic as declared. retention_ms is Kafka's `retention.ms`."""

    name: str
    partitions: int
    retention_ms: int


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names with the installation's prefix. Everything that names a topic to Kafka goes through `full`."""

    prefix: str = ""

    def full(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def bare(self, full_name: str) -> str:
        """Inverse of `full`; ValueError for a name without the prefix."""
        if not full_name.startswith(self.prefix):
            raise ValueError(f"topic {full_name!r} lacks the prefix {self.prefix!r}")
        return full_name[len(self.prefix) :]


def _lane_topics(lane: Lane) -> Iterable[TopicSpec]:
    retention = _HOUR_MS if lane is OTP_LANE else 3 * _DAY_MS
    yield TopicSpec(lane.topic, lane.partitions, retention)
    for tier in lane.tiers:
        yield TopicSpec(lane.retry_topic(tier), lane.retry_partitions, max(retention, 2 * tier * 1000))
    yield TopicSpec(lane.dlq_topic, lane.retry_partitions, 14 * _DAY_MS)


def declared_topics(
    channels: Channels = DEFAULT_CHANNELS, *, max_partitions: int | None = None
) -> tuple[TopicSpec, ...]:
    """All topics of an installation, each once, in a stable order.

    max_partitions caps every partition count (the embedded stack uses 2). Foreign events and receipts hold personal
    data, so they are kept briefly (architecture.md section 3).
    """
    specs = [
        TopicSpec(DOMAIN_EVENTS, 24, 3 * _DAY_MS),
        *(TopicSpec(notification_requests(message_class), 24, 3 * _DAY_MS) for message_class in REQUEST_CLASSES),
        TopicSpec(DELIVERY_RECEIPTS, 24, _DAY_MS),
        TopicSpec(DELIVERY_EVENTS, 24, 7 * _DAY_MS),
        TopicSpec(ROUTER_DLQ, 3, 14 * _DAY_MS),
        TopicSpec(RECEIPTS_DLQ, 3, 14 * _DAY_MS),
        *(topic for lane in channels.lanes for topic in _lane_topics(lane)),
    ]
    if max_partitions is None:
        return tuple(specs)
    return tuple(TopicSpec(s.name, min(s.partitions, max_partitions), s.retention_ms) for s in specs)
