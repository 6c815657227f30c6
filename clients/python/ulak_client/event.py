"""A fact that a service tells, as a CloudEvent 1.0."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from ulak_client.text import check_text, json_bytes

_LONGEST_ID: Final = 200
"""Ulak keeps no longer one."""
_LONGEST_NAME: Final = 1024


@dataclass(frozen=True, slots=True)
class Event:
    """A fact. ValueError or TypeError at construction if it cannot be told; repr does not show `data`.

    id is the idempotency key together with source: the same fact must always have the same id. key keeps the events
    of one thing (an order) together; it defaults to the id. time is when it happened, with its offset.
    """

    id: str
    source: str
    type: str
    data: Mapping[str, Any] = field(repr=False)
    key: str | None = None
    time: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        check_text("an event's id", self.id, longest=_LONGEST_ID)
        check_text("an event's source", self.source, longest=_LONGEST_NAME)
        check_text("an event's type", self.type, longest=_LONGEST_NAME)
        if self.key is not None:
            check_text("an event's key", self.key, longest=_LONGEST_NAME)
        if self.time.tzinfo is None:
            raise ValueError("an event's time needs an offset, e.g. datetime.now(UTC)")
        json_bytes("an event's data", self.data)

    def payload(self) -> bytes:
        """The event as structured CloudEvents JSON, UTF-8."""
        return json_bytes(
            "an event",
            {
                "specversion": "1.0",
                "id": self.id,
                "source": self.source,
                "type": self.type,
                "time": self.time.isoformat(),
                "datacontenttype": "application/json",
                "data": dict(self.data),
            },
        )
