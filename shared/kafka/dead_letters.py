"""Dead letters: what is kept of a message that can never be worked on, and the writer. `replay` reads these headers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.core.sealing import KeyRing, Purpose, open_sealed, seal
from shared.kafka.error import PublishError
from shared.kafka.metrics import MetricsObserver
from shared.kafka.observer import KafkaObserver
from shared.kafka.record import Publisher, Record
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.wire.topic import RECEIPTS_DLQ, ROUTER_DLQ

_log = get_logger(__name__)

HEADER_TOPIC: Final = "ulak-dlq-topic"
HEADER_PARTITION: Final = "ulak-dlq-partition"
HEADER_OFFSET: Final = "ulak-dlq-offset"
HEADER_ERROR_CLASS: Final = "ulak-dlq-error-class"
HEADER_ERROR_MESSAGE: Final = "ulak-dlq-error-message"
HEADER_ATTEMPTS: Final = "ulak-dlq-attempts"
HEADER_FIRST_SEEN: Final = "ulak-dlq-first-seen"
HEADER_SERVICE_VERSION: Final = "ulak-dlq-service-version"
HEADER_SEALED: Final = "ulak-dlq-sealed"
HEADER_VALUE: Final = "ulak-dlq-value"
"""`null` where the original value was null (a dead letter's own value is then empty), `dropped` where it was too large
for the dead-letter topic: then only the original topic still has it."""
SEALED_AS: Final = {ROUTER_DLQ: Purpose.OUTBOX, RECEIPTS_DLQ: Purpose.RECEIPT}
"""Topics whose values hold personal data, and what they are sealed as, for the row of the topic's name."""
_PREFIX: Final = "ulak-dlq-"
_MESSAGE_LIMIT: Final = 1_000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message that cannot be worked on. topic is bare; attempts counts the calls of its handler, at least 1."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    error_class: str
    error_message: str
    attempts: int
    first_seen: datetime


def dead_letter_headers(letter: DeadLetter, service_version: str) -> list[tuple[str, bytes]]:
    """The original headers, then ours. A message that was replayed and fails again keeps its first `first seen`, and
    its attempts add up.
    """
    earlier: Mapping[str, bytes] = {name: value or b"" for name, value in letter.headers}
    attempts = letter.attempts + _count(earlier.get(HEADER_ATTEMPTS, b"0"))
    first_seen = earlier.get(HEADER_FIRST_SEEN) or letter.first_seen.isoformat().encode()
    headers = [(name, value or b"") for name, value in letter.headers if not name.startswith(_PREFIX)]
    headers += [
        (HEADER_TOPIC, letter.topic.encode()),
        (HEADER_PARTITION, str(letter.partition).encode()),
        (HEADER_OFFSET, str(letter.offset).encode()),
        (HEADER_ERROR_CLASS, letter.error_class.encode()),
        (HEADER_ERROR_MESSAGE, letter.error_message[:_MESSAGE_LIMIT].encode()),
        (HEADER_ATTEMPTS, str(attempts).encode()),
        (HEADER_FIRST_SEEN, first_seen),
        (HEADER_SERVICE_VERSION, service_version.encode()),
    ]
    if letter.value is None:
        headers.append((HEADER_VALUE, b"null"))
    return headers


def _count(text: bytes) -> int:
    return int(text) if text.isdigit() else 0


def sealing(dlq_topic: str, rings: RingSource) -> Callable[[bytes], bytes]:
    """How values of one of SEALED_AS are sealed, with whatever key is the active one then."""
    return lambda value: seal(rings.ring, SEALED_AS[dlq_topic], dlq_topic.encode(), value)


def open_value(dlq_topic: str, ring: KeyRing, sealed: bytes) -> bytes:
    """What `sealing` sealed. SealError if it stays shut."""
    return open_sealed(ring, SEALED_AS[dlq_topic], dlq_topic.encode(), sealed)


def kept_headers(headers: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Those with which a dead letter's message goes back to where it was meant for: its own, and of ours what counts
    on, so that its attempts add up should it fail again.
    """
    counting = {HEADER_ATTEMPTS, HEADER_FIRST_SEEN}
    return [(name, value) for name, value in headers.items() if not name.startswith(_PREFIX) or name in counting]


class DeadLetterWriter:
    """Writes to one dead-letter topic and returns when the broker has acknowledged.

    seal: for topics whose values hold personal data (router-dlq, receipts-dlq): the value is stored as `seal(value)`,
    told by the header `ulak-dlq-sealed`.
    """

    def __init__(
        self,
        publisher: Publisher,
        *,
        dlq_topic: str,
        service_version: str,
        seal: Callable[[bytes], bytes] | None = None,
        observer: KafkaObserver | None = None,
    ) -> None:
        self.dlq_topic: Final = dlq_topic
        self._publisher = publisher
        self._service_version = service_version
        self._seal = seal
        self._observer = observer or MetricsObserver()

    async def write(self, letters: Sequence[DeadLetter]) -> None:
        """Write all; PublishError if one may not be written: the caller must not commit past it, and calls again.

        A value that the topic refuses for its size is left out, so that one message cannot stop a lane for good.
        """
        records = [self._record(letter) for letter in letters]
        try:
            await self._publisher.publish(records)
        except PublishError as error:
            await self._again(error, letters, records)
        for letter in letters:
            self._observer.dead_lettered(letter.topic, letter.error_class)
            _log.warning(
                "dead_lettered",
                topic=letter.topic,
                partition=letter.partition,
                offset=letter.offset,
                error_class=letter.error_class,
                dlq_topic=self.dlq_topic,
            )

    async def _again(self, error: PublishError, letters: Sequence[DeadLetter], records: Sequence[Record]) -> None:
        if not error.permanent or {index for index, _ in error.failed} != error.permanent:
            raise error
        for index in error.permanent:
            _log.error(
                "dead_letter_value_dropped",
                topic=letters[index].topic,
                partition=letters[index].partition,
                offset=letters[index].offset,
                size_bytes=len(letters[index].value or b""),
            )
        await self._publisher.publish(
            [
                Record(
                    topic=self.dlq_topic,
                    key=records[index].key,
                    value=b"",
                    headers=[*records[index].headers, (HEADER_VALUE, b"dropped")],
                )
                for index in sorted(error.permanent)
            ]
        )

    def _record(self, letter: DeadLetter) -> Record:
        headers = dead_letter_headers(letter, self._service_version)
        value = letter.value or b""
        if self._seal is not None and letter.value is not None:
            value = self._seal(value)
            headers.append((HEADER_SEALED, b"1"))
        return Record(topic=self.dlq_topic, key=letter.key, value=value, headers=headers)
