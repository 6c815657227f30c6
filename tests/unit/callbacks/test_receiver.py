"""The receiver against an in-memory broker: what is answered, and what is stored."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from urllib.parse import urlencode
from uuid import UUID

import pytest

from services.callbacks.receiver import Incoming, Receiver
from services.callbacks.settings import CallbackSettings
from shared.core.receipt import CallbackRequest
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.kafka.memory import InMemoryProducer
from shared.providers.sms.twilio.receipts import TwilioReceipts, signature
from shared.runtime.keyring import FixedRingSource
from shared.web.problem import RefusedError
from shared.wire.message import ReceiptMessage, decode
from shared.wire.topic import DELIVERY_RECEIPTS

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
RING = KeyRing(active="k1", keys={"k1": bytes(range(32))}, lookup_key=bytes(range(32, 64)))
KEY = DeliveryKey(UUID("019bc000-0000-7000-8000-000000000001"), "SMS", b"\x07" * 32)
URL = "https://hooks.example.com"
TARGET = "/callbacks/twilio?" + urlencode({"ref": KEY.reference, "attempt": 1})
FIELDS = {"MessageSid": "SM1", "MessageStatus": "delivered", "To": "+905321234567"}


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def endless() -> AsyncIterator[bytes]:
    yield b"M"
    await asyncio.Event().wait()


def receiver(producer: InMemoryProducer, **limits: float) -> Receiver:
    settings = CallbackSettings.model_validate(limits)
    return Receiver(
        {"twilio": TwilioReceipts(URL, ("token",))}, producer, FixedRingSource(RING), settings, clock=lambda: NOW
    )


def incoming(fields: dict[str, str] | None = None, *, token: str = "token", signed: bool = True) -> Incoming:
    given = FIELDS if fields is None else fields
    headers = {"x-twilio-signature": signature(token, URL + TARGET, given.items())} if signed else {}
    return Incoming(TARGET, headers, chunks(urlencode(given).encode()))


async def refused(taker: Receiver, request: Incoming, name: str = "twilio") -> tuple[int, str]:
    with pytest.raises(RefusedError) as refusal:
        await taker.take(name, request)
    return refusal.value.problem.status, refusal.value.problem.code


async def test_a_callback_is_stored_sealed_under_its_message_id() -> None:
    producer = InMemoryProducer()
    await receiver(producer).take("twilio", incoming())

    (record,) = producer.on(DELIVERY_RECEIPTS)
    assert record.key == b"SM1"
    assert record.value is not None
    assert b"+90532" not in record.value
    message = decode(ReceiptMessage, record.value)
    assert (message.provider, message.received_at) == ("twilio", NOW)
    opened = CallbackRequest.unpack(open_sealed(RING, Purpose.RECEIPT, message.receipt_id.bytes, message.sealed))
    assert opened.target == TARGET


async def test_a_signed_callback_we_cannot_read_is_stored_for_a_person_to_look_at() -> None:
    producer = InMemoryProducer()
    await receiver(producer).take("twilio", incoming(FIELDS | {"MessageStatus": "teleported"}))

    assert len(producer.on(DELIVERY_RECEIPTS)) == 1


async def test_refusals_change_nothing() -> None:
    producer = InMemoryProducer()
    taker = receiver(producer, max_body_bytes=1024)
    long = FIELDS | {"Body": "x" * 2000}

    assert await refused(taker, incoming(signed=False)) == (401, "signature_missing")
    assert await refused(taker, incoming(token="guess")) == (403, "signature_refused")
    assert await refused(taker, incoming(), "acme") == (404, "unknown_provider")
    assert await refused(taker, incoming(), "twilio/other-account") == (404, "unknown_provider")
    assert await refused(taker, incoming(long)) == (413, "body_too_large")
    declared = Incoming(TARGET, {"content-length": "2000"}, endless())
    assert await refused(taker, declared) == (413, "body_too_large")
    assert producer.records == []


async def test_a_body_that_does_not_come_is_given_up_A3() -> None:
    taker = receiver(InMemoryProducer(), read_timeout_sec=0.01)

    assert await refused(taker, Incoming(TARGET, {}, endless())) == (408, "body_too_slow")


async def test_no_broker_means_no_2xx() -> None:
    producer = InMemoryProducer()
    producer.stall()

    assert await refused(receiver(producer), incoming()) == (503, "try_again")


async def test_a_broker_that_does_not_acknowledge_in_time_means_no_2xx() -> None:
    producer = InMemoryProducer()
    producer.fail_next("_MSG_TIMED_OUT")

    assert await refused(receiver(producer), incoming()) == (503, "try_again")
    assert producer.records == []


async def test_more_than_the_bound_at_once_are_sent_away_and_the_bound_frees_itself() -> None:
    producer = InMemoryProducer()
    taker = receiver(producer, max_in_flight=2, read_timeout_sec=3600)
    slow = [asyncio.create_task(taker.take("twilio", Incoming(TARGET, {}, endless()))) for _ in range(2)]
    await asyncio.sleep(0)

    assert await refused(taker, incoming()) == (503, "try_again")
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    await taker.take("twilio", incoming())
    assert len(producer.records) == 1
