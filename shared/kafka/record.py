"""A record to publish, a message as received, and the port that publishes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Partition(NamedTuple):
    """One partition of a topic (bare name)."""

    topic: str
    number: int


class Record(NamedTuple):
    """One message to publish. topic is the bare name, without the installation's prefix."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Received(Generic[T]):
    """One decoded message. topic is bare; of repeated headers the last counts; timestamp in UTC."""

    value: T
    topic: str
    partition: int
    offset: int
    key: bytes | None
    headers: Mapping[str, bytes]
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class Rejection:
    """Poison found by a handler: which message of its batch (index), the error's class, and what is wrong.

    detail travels in the dead letter's header: no recipient, body, code or token in it.
    """

    index: int
    reason: str
    detail: str


class Handler(Protocol[T]):
    """Works on one batch; returns when its effects are durable, with the messages that can never be worked on.

    It may be called again with the same messages (at least once), also at the same time elsewhere after a lost
    partition. An exception means "again later": the whole batch is retried and nothing is committed.
    """

    async def __call__(self, batch: Sequence[Received[T]], /) -> Sequence[Rejection]: ...


class Publisher(Protocol):
    """What services need of a producer; `Producer` and `InMemoryProducer` keep the same contract."""

    async def publish(self, records: Sequence[Record]) -> None:
        """Return when the broker has acknowledged all; else PublishError. Waits while the local queue is full."""
        ...

    async def try_publish(self, records: Sequence[Record]) -> bool:
        """True when all are acknowledged. False if a record failed, or at once if no broker answers or the local queue
        has no room.
        """
        ...

    def ready(self) -> bool:
        """Whether a broker answers."""
        ...
