"""From a client's message to an entry of the backlog: decode, when due, poison or held. As pure as `decode`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, Protocol, TypeVar, cast

from confluent_kafka._types import HeadersType

from shared.kafka.backlog import Entry, Problem, Raw
from shared.kafka.record import Partition, Received
from shared.wire.message import MalformedMessageError, NewerSchemaError

T = TypeVar("T")

HOLD: Final = timedelta(seconds=60)
"""How often a message of a newer release is looked at again, and its alarm repeated."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ClientMessage(Protocol):
    """What is read of confluent_kafka.Message."""

    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def offset(self) -> int | None: ...
    def headers(self) -> HeadersType | None: ...
    def timestamp(self) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """decode raises MalformedMessageError (poison) or NewerSchemaError (hold); not_before says when a value is due."""

    decode: Callable[[bytes | None, Mapping[str, bytes]], T]
    not_before: Callable[[T], datetime | None] | None = None

    def entry(self, partition: Partition, message: ClientMessage, now: datetime) -> Entry[T]:
        """The message as an entry: readable, poison, or held.

        Any other exception of `decode` is poison too: a message that a decoder stumbles over must not stop its
        partition, and its dead letter can be replayed once the decoder is repaired.
        """
        raw_headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])  # as received, always a list
        entry: Entry[T] = Entry(
            partition,
            offset=message.offset() or 0,
            raw=Raw(message.key(), message.value(), raw_headers),
            first_seen=now,
            timestamp=_EPOCH + timedelta(milliseconds=max(message.timestamp()[1], 0)),
        )
        self.read(entry, now)
        return entry

    def read(self, entry: Entry[T], now: datetime) -> None:
        """Decode what the entry holds raw; also again, after it was held."""
        headers = {name: value or b"" for name, value in entry.raw.headers}
        entry.held, entry.due = False, None
        try:
            value = self.decode(entry.raw.value, headers)
            due = None if self.not_before is None else self.not_before(value)
        except NewerSchemaError:
            entry.held, entry.due = True, now + HOLD
        except MalformedMessageError as error:
            entry.problem = Problem(type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - see `entry`: whatever the decoder stumbles over is poison
            entry.problem = Problem(
                type(error).__name__, "the decoder failed; its message may hold content, see the value"
            )
        else:
            entry.due = due
            entry.received = Received(
                value,
                entry.partition.topic,
                entry.partition.number,
                entry.offset,
                entry.raw.key,
                headers,
                entry.timestamp,
            )
