"""Receipts from `delivery-receipts` onto their deliveries."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from services.callbacks.projection import Delivery, Statement
from services.callbacks.store import ReceiptStore
from shared.core.event import delivery_event
from shared.core.receipt import CallbackRequest, Receipt, ReceiptReader, UnreadableError
from shared.core.sealing import LostKeyError, Purpose, TamperedError, UnknownKeyError, keyed_hash, open_sealed
from shared.kafka.record import Publisher, Received, Record, Rejection
from shared.runtime.keyring import RingSource
from shared.wire.message import ReceiptMessage
from shared.wire.topic import DELIVERY_EVENTS


class _RefusedError(Exception):
    """A message that can never be applied: why, in one word and in a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Projector:
    """Handler of the projector's consumer.

    A batch may come again (at least once): what was applied is not applied again, but its event is published again.
    """

    def __init__(
        self,
        readers: Mapping[str, ReceiptReader],
        store: ReceiptStore,
        publisher: Publisher,
        ring: RingSource,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._readers = readers
        self._store = store
        self._publisher = publisher
        self._ring = ring
        self._clock = clock

    async def __call__(self, batch: Sequence[Received[ReceiptMessage]], /) -> Sequence[Rejection]:
        """Open, read, apply, publish. Raises UnknownKeyError (the batch waits for the key) and adapters' errors."""
        statements: list[Statement] = []
        rejections: list[Rejection] = []
        for index, received in enumerate(batch):
            try:
                statements += self._statements(received.value)
            except _RefusedError as refusal:
                rejections.append(Rejection(index, refusal.reason, str(refusal)))
        if statements:
            changed = await self._store.apply(statements, self._clock())
            await self._publisher.publish([_event(delivery) for delivery in changed])
        return rejections

    def _statements(self, message: ReceiptMessage) -> list[Statement]:
        reader = self._readers.get(message.provider)
        if reader is None:
            raise _RefusedError("unknown_provider", f"no provider {message.provider[:64]!r} is configured here")
        try:
            receipts = reader.read(CallbackRequest.unpack(self._open(message)))
        except UnreadableError as error:
            raise _RefusedError("unreadable", str(error)) from error
        except LostKeyError as error:
            raise _RefusedError("lost_key", str(error)) from error
        except TamperedError as error:
            raise _RefusedError("tampered", str(error)) from error
        provider = message.provider.split("/", maxsplit=1)[0]
        return [
            Statement(receipt, provider, message.received_at, self._event_hash(message.provider, receipt))
            for receipt in receipts
        ]

    def _open(self, message: ReceiptMessage) -> bytes:
        row = message.receipt_id.bytes
        try:
            return open_sealed(self._ring.ring, Purpose.RECEIPT, row, message.sealed)
        except UnknownKeyError:
            if not self._ring.refresh():
                raise
            return open_sealed(self._ring.ring, Purpose.RECEIPT, row, message.sealed)

    def _event_hash(self, name: str, receipt: Receipt) -> bytes:
        """Keyed: a provider's event id may be made of an address."""
        return keyed_hash(self._ring.ring, "receipt", f"{name}:{receipt.key.reference}:{receipt.event_key}")


def _event(delivery: Delivery) -> Record:
    key, value, headers = delivery_event(
        delivery.key,
        status=delivery.status,
        reason=delivery.reason,
        attempt=delivery.attempt,
        provider=delivery.provider,
        at=delivery.updated_at,
    )
    return Record(DELIVERY_EVENTS, key, value, headers)
