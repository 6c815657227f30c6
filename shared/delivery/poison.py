"""Dead letters that lie in Kafka alone: found in their topic, entered in the table, and sent back where they came from.

No row stands for them: a message that nobody could read, an event that maps to nothing, a receipt of nobody's.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar
from uuid import UUID

from shared.core.replay import Verdict
from shared.core.sealing import KeyRing, SealError, UnknownKeyError
from shared.kafka.dead_letters import (
    HEADER_ERROR_CLASS,
    HEADER_ERROR_MESSAGE,
    HEADER_FIRST_SEEN,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_SEALED,
    HEADER_TOPIC,
    HEADER_VALUE,
    kept_headers,
    open_value,
)
from shared.kafka.record import Record
from shared.kafka.retained import Retained, RetainedReader
from shared.postgres.dead_letter import Letter, Poison, enter_poison, next_offsets
from shared.postgres.pool import Connection
from shared.wire.channel import DEFAULT_CHANNELS, Channels
from shared.wire.message import DeliveryHint, MalformedMessageError, NewerSchemaError, RequestHint, decode
from shared.wire.topic import RECEIPTS_DLQ, REQUEST_CLASSES, ROUTER_DLQ, notification_requests

H = TypeVar("H", DeliveryHint, RequestHint)

_CLASS_CHARS: Final = 64
_DETAIL_CHARS: Final = 256
_REQUESTS: Final = frozenset(map(notification_requests, REQUEST_CLASSES))


def dead_letter_topics(channels: Channels = DEFAULT_CHANNELS) -> Sequence[str]:
    """All of them, bare."""
    return [*(lane.dlq_topic for lane in channels.lanes), ROUTER_DLQ, RECEIPTS_DLQ]


async def index_poison(connection: Connection, reader: RetainedReader, topic: str, now: datetime) -> int:
    """Enter what the topic has got since it was last read; how many are new. In transactions of its own, a page each.

    ReadError, MissingTopicError as of the reader. Two at once enter each letter once.
    """
    known = await next_offsets(connection, topic)
    new = 0
    for number, span in (await reader.spans(topic)).items():
        start = known.get(number, span.start)
        if not span.start <= start <= span.stop:  # the topic was made anew, or has lost its oldest
            start = span.start
        async for page in reader.read(topic, number, range(start, span.stop)):
            found = [poison for message in page if (poison := read_poison(topic, message, now)) is not None]
            async with connection.transaction():
                new += await enter_poison(connection, topic, found, {number: page[-1].offset + 1}, now)
    return new


def read_poison(topic: str, message: Retained, now: datetime) -> Poison | None:
    """What to enter for a message of a dead-letter topic; None where a delivery's row is the letter. Pure."""
    headers = message.headers
    origin = headers.get(HEADER_TOPIC, b"").decode(errors="replace")
    notification_id: UUID | None = None
    if topic not in {ROUTER_DLQ, RECEIPTS_DLQ}:
        if _reads(DeliveryHint, message):
            return None
    elif origin in _REQUESTS and (hint := _reads(RequestHint, message)) is not None:
        notification_id = hint.notification_id
    place = f"{origin}|{headers.get(HEADER_PARTITION, b'').decode()}|{headers.get(HEADER_OFFSET, b'').decode()}"
    return Poison(
        fingerprint=hashlib.sha256(place.encode()).digest(),
        notification_id=notification_id,
        error_class=headers.get(HEADER_ERROR_CLASS, b"unknown").decode(errors="replace")[:_CLASS_CHARS],
        detail=headers.get(HEADER_ERROR_MESSAGE, b"").decode(errors="replace")[:_DETAIL_CHARS],
        first_seen=_moment(headers.get(HEADER_FIRST_SEEN, b""), now),
        origin_topic=origin or topic,
        partition=message.partition,
        offset=message.offset,
    )


def sent_back(letter: Letter, message: Retained | None, ring: KeyRing) -> Record | Verdict:
    """The record that brings a letter's message back to where it was meant for, or why there is none. Pure.

    UnknownKeyError if the ring does not have its key: that can be mended, so it is no verdict.
    """
    if message is None or letter.origin_topic is None:
        return Verdict.GONE
    kept = message.headers.get(HEADER_VALUE)
    if kept == b"dropped":
        return Verdict.UNREADABLE
    value = None if kept == b"null" else message.value
    if value is not None and HEADER_SEALED in message.headers:
        try:
            value = open_value(letter.topic, ring, value)
        except UnknownKeyError:
            raise
        except SealError:
            return Verdict.UNREADABLE
    return Record(letter.origin_topic, message.key, value, kept_headers(message.headers))


async def poison_of(
    reader: RetainedReader, topic: str, letters: Sequence[Letter]
) -> Mapping[tuple[int, int], Retained]:
    """The messages of letters of one topic, by their place; those that Kafka no longer keeps are absent."""
    return await reader.at(topic, [letter.at for letter in letters]) if letters else {}


def _reads(kind: type[H], message: Retained) -> H | None:
    try:
        return decode(kind, message.value, message.headers)
    except (MalformedMessageError, NewerSchemaError):
        return None


def _moment(text: bytes, otherwise: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text.decode())
    except ValueError:
        return otherwise
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
