"""Takes a provider's callback in: verified, sealed, durable in Kafka; only then 2xx. Nothing else is decided here."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.callbacks import problem
from services.callbacks.settings import CallbackSettings
from shared.core.identifier import new_id
from shared.core.receipt import CallbackRequest, ForgedError, ReceiptReader, UnreadableError, UnsignedError
from shared.core.sealing import Purpose, seal
from shared.kafka.error import PublishError
from shared.kafka.record import Publisher, Record
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import CALLBACKS_REFUSED, RECEIPTS
from shared.web.problem import RefusedError
from shared.wire.message import ReceiptMessage, encode
from shared.wire.topic import DELIVERY_RECEIPTS

_UNKNOWN: Final = "unknown"
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request before its body was read. headers have lower-case names."""

    target: str
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Receiver:
    """readers: by the name in the URL, `twilio` or `twilio/<account>`; the part before the slash is the provider."""

    def __init__(
        self,
        readers: Mapping[str, ReceiptReader],
        publisher: Publisher,
        ring: RingSource,
        settings: CallbackSettings,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._readers = readers
        self._publisher = publisher
        self._ring = ring
        self._settings = settings
        self._clock = clock
        self._in_flight = 0

    async def take(self, name: str, incoming: Incoming) -> None:
        """Return when the callback is durable; raises RefusedError otherwise, and then nothing has changed."""
        label = name.split("/", maxsplit=1)[0] if name in self._readers else _UNKNOWN
        try:
            await self._take(name, incoming)
        except RefusedError as refusal:
            CALLBACKS_REFUSED.labels(label, refusal.problem.code).inc()
            raise
        RECEIPTS.labels(label, "accepted").inc()

    async def _take(self, name: str, incoming: Incoming) -> None:
        reader = self._readers.get(name)
        if reader is None:
            raise problem.unknown_provider()
        if self._in_flight >= self._settings.max_in_flight:
            raise problem.busy("Too many callbacks at once.")
        self._in_flight += 1
        try:
            request = CallbackRequest(incoming.target, incoming.headers, await self._body(incoming))
            _verify(reader, request)
            await self._publish(self._record(name, reader, request))
        finally:
            self._in_flight -= 1

    async def _body(self, incoming: Incoming) -> bytes:
        """Counted while it is read, so that neither size nor slowness costs more than the limits say (A3)."""
        limit = self._settings.max_body_bytes
        declared = incoming.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise problem.too_large(limit)
        body = bytearray()
        try:
            async with asyncio.timeout(self._settings.read_timeout_sec):
                async for chunk in incoming.chunks:
                    body += chunk
                    if len(body) > limit:
                        raise problem.too_large(limit)
        except TimeoutError:
            raise problem.too_slow(self._settings.read_timeout_sec) from None
        return bytes(body)

    def _record(self, name: str, reader: ReceiptReader, request: CallbackRequest) -> Record:
        receipt_id = new_id()
        message = ReceiptMessage(
            receipt_id=receipt_id,
            provider=name,
            received_at=self._clock(),
            sealed=seal(self._ring.ring, Purpose.RECEIPT, receipt_id.bytes, request.pack()),
        )
        value, headers = encode(message)
        return Record(DELIVERY_RECEIPTS, _partition_key(reader, request) or receipt_id.bytes, value, headers)

    async def _publish(self, record: Record) -> None:
        if not self._publisher.ready():
            raise problem.busy("The callback cannot be stored now.")
        try:
            async with asyncio.timeout(self._settings.publish_timeout_sec):
                await self._publisher.publish([record])
        except (PublishError, TimeoutError) as error:
            # It may still be written: the provider calls again, and the projector knows the same statement.
            _log.warning("callback_not_stored", error_class=type(error).__name__)
            raise problem.busy("The callback cannot be stored now.") from error


def _verify(reader: ReceiptReader, request: CallbackRequest) -> None:
    try:
        reader.verify(request)
    except UnsignedError as error:
        raise problem.unsigned(str(error)) from error
    except ForgedError as error:
        raise problem.forged(str(error)) from error


def _partition_key(reader: ReceiptReader, request: CallbackRequest) -> bytes | None:
    """The provider's message id, so that one message's receipts stay in order; None where it cannot be read.

    What is signed but unreadable is stored all the same: the projector dead-letters it, and a person sees it.
    """
    try:
        receipts = reader.read(request)
    except UnreadableError as error:
        _log.warning("callback_unreadable", reason=str(error))
        return None
    return receipts[0].provider_message_id.encode() if receipts else None
