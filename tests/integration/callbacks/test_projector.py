"""The projector's transaction on a real PostgreSQL: any order, any number of times, the same end."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any
from urllib.parse import urlencode

import asyncpg
import orjson
import pytest

from services.callbacks.projector import Projector
from services.callbacks.store import ReceiptStore
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.receipt import CallbackRequest
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing, Purpose, UnknownKeyError, seal
from shared.kafka.error import PublishError
from shared.kafka.memory import InMemoryProducer
from shared.kafka.record import Received
from shared.postgres.pool import Pool
from shared.providers.sms.twilio.receipts import TwilioReceipts
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import Promise
from shared.wire.message import ReceiptMessage
from shared.wire.topic import DELIVERY_EVENTS, DELIVERY_RECEIPTS
from tests.integration.relay.rows import (
    add_claimed,
    add_delivery,
    add_notification,
    add_request,
    count,
    delivery,
    kept,
    retold,
)

pytestmark = pytest.mark.postgres

READER = TwilioReceipts("https://hooks.example.com", ("token",))
NOW = datetime.now(UTC)
SMS: dict[str, Any] = {"channel": "SMS", "promise": Promise.AT_MOST_ONCE, "provider": "twilio"}
OTHER_RING = KeyRing(active="k2", keys={"k2": bytes(32)}, lookup_key=bytes(range(32, 64)))


def told(
    ring: KeyRing, key: DeliveryKey, status: str, *, attempt: int = 1, code: str = "", at: datetime = NOW
) -> ReceiptMessage:
    """Twilio's word on one delivery as the receiver stores it; each call is a callback of its own."""
    query = urlencode({"ref": key.reference, "attempt": attempt})
    fields = {"MessageSid": "SM1", "MessageStatus": status} | ({"ErrorCode": code} if code else {})
    packed = CallbackRequest(f"/callbacks/twilio?{query}", {}, urlencode(fields).encode()).pack()
    receipt_id = new_id()
    return ReceiptMessage(receipt_id, "twilio", at, seal(ring, Purpose.RECEIPT, receipt_id.bytes, packed))


def received(*messages: ReceiptMessage) -> list[Received[ReceiptMessage]]:
    return [Received(message, DELIVERY_RECEIPTS, 0, offset, b"SM1", {}, NOW) for offset, message in enumerate(messages)]


def make(pool: Pool, ring: KeyRing, broker: InMemoryProducer) -> Projector:
    return Projector(
        {"twilio": READER}, ReceiptStore(pool), broker, FixedRingSource(ring), clock=lambda: datetime.now(UTC)
    )


async def add_sent(pool: Pool, **changed: Any) -> DeliveryKey:
    notification = await add_notification(pool, state=NotificationState.DECIDED)
    return await add_delivery(pool, notification, **(SMS | {"status": DeliveryStatus.SENT, "attempt": 1} | changed))


def events(broker: InMemoryProducer) -> list[str]:
    return [orjson.loads(record.value or b"")["type"] for record in broker.on(DELIVERY_EVENTS)]


async def log(pool: Pool) -> Sequence[asyncpg.Record]:
    return await pool.fetch("SELECT * FROM ulak.delivery_log ORDER BY id")


async def test_a_delivered_receipt_settles_and_is_told_and_logged(pool: Pool, key_ring: KeyRing) -> None:
    key, broker = await add_sent(pool), InMemoryProducer()

    assert await make(pool, key_ring, broker)(received(told(key_ring, key, "delivered"))) == []

    row = await delivery(pool, key)
    assert (row["status"], row["reason"], row["provider_message_id"]) == ("DELIVERED", None, "SM1")
    assert events(broker) == ["ulak.delivery.delivered.v1"]
    assert [record.value for record in broker.on(DELIVERY_EVENTS)] == [retold(row)]
    (line,) = await log(pool)
    assert (line["kind"], line["result"], line["attempt"], line["detail"]) == ("receipt", "delivered", 1, "delivered")


@pytest.mark.parametrize("order", sorted(set(permutations(["delivered", "sent", "queued", "delivered"]))), ids="-".join)
async def test_order_and_number_do_not_matter_S6(pool: Pool, key_ring: KeyRing, order: tuple[str, ...]) -> None:
    """One by one, then the whole topic again from its beginning: one event id, the same row, the same log."""
    key, broker = await add_sent(pool), InMemoryProducer()
    projector = make(pool, key_ring, broker)
    messages = [told(key_ring, key, status) for status in order]

    for message in messages:
        await projector(received(message))
    settled, lines = await delivery(pool, key), await log(pool)
    await projector(received(*messages))

    assert settled["status"] == "DELIVERED"
    assert dict(await delivery(pool, key)) == dict(settled)
    assert [dict(line) for line in await log(pool)] == [dict(line) for line in lines]
    assert len(lines) == 3, "the second `delivered` is the same statement"
    ids = {orjson.loads(record.value or b"")["id"] for record in broker.on(DELIVERY_EVENTS)}
    assert len(ids) == 1, "one event to our caller, however often it is published"


async def test_the_topic_read_again_after_dedup_was_pruned_changes_nothing(pool: Pool, key_ring: KeyRing) -> None:
    key, broker = await add_sent(pool), InMemoryProducer()
    projector = make(pool, key_ring, broker)
    messages = [told(key_ring, key, status) for status in ("queued", "sent", "delivered")]
    await projector(received(*messages))
    before, lines = await delivery(pool, key), await log(pool)

    await pool.execute("TRUNCATE ulak.applied_receipts")
    await projector(received(*messages))

    assert dict(await delivery(pool, key)) == dict(before)
    assert len(await log(pool)) == len(lines)


async def test_a_negative_receipt_fails_the_delivery_of_its_own_attempt_only(pool: Pool, key_ring: KeyRing) -> None:
    current, older = await add_sent(pool, attempt=1), await add_sent(pool, attempt=2)
    broker = InMemoryProducer()

    await make(pool, key_ring, broker)(
        received(*(told(key_ring, key, "undelivered", code="30003") for key in (current, older)))
    )

    row = await delivery(pool, current)
    assert (row["status"], row["reason"]) == ("FAILED", "undelivered")
    assert (await delivery(pool, older))["status"] == "SENT"
    assert events(broker) == ["ulak.delivery.failed.v1"]
    assert {line["detail"] for line in await log(pool)} == {"undelivered 30003"}


async def test_a_request_goes_with_the_receipt_of_its_last_recipient(pool: Pool, key_ring: KeyRing) -> None:
    notification = await add_notification(pool, state=NotificationState.DECIDED)
    first, last = [
        await add_delivery(
            pool, notification, channel="EMAIL", target_key=target * 32, status=DeliveryStatus.UNKNOWN, attempt=1
        )
        for target in (b"\x07", b"\x08")
    ]
    await add_request(pool, notification)
    projector = make(pool, key_ring, InMemoryProducer())

    await projector(received(told(key_ring, first, "delivered")))
    assert await kept(pool, notification)
    await projector(received(told(key_ring, last, "undelivered")))
    assert not await kept(pool, notification)


async def test_unknown_is_settled_and_no_longer_open(pool: Pool, key_ring: KeyRing) -> None:
    key = await add_sent(pool, status=DeliveryStatus.UNKNOWN, reason=Reason.AMBIGUOUS)
    await pool.execute(
        "INSERT INTO ulak.unknown_open VALUES ($1, $2, $3, now())", key.notification_id, key.channel, key.target_key
    )

    await make(pool, key_ring, InMemoryProducer())(received(told(key_ring, key, "delivered")))

    row = await delivery(pool, key)
    assert (row["status"], row["reason"]) == ("DELIVERED", None)
    assert await count(pool, "unknown_open") == 0


async def test_a_positive_receipt_before_the_record_clears_the_claim(pool: Pool, key_ring: KeyRing) -> None:
    key, claim = await add_claimed(pool, **SMS)

    await make(pool, key_ring, InMemoryProducer())(received(told(key_ring, key, "delivered")))

    row = await delivery(pool, key)
    assert (row["status"], row["attempt"], row["claim_id"]) == ("DELIVERED", 1, None)
    recorded = await pool.execute("UPDATE ulak.deliveries SET status = 'SENT' WHERE claim_id = $1", claim)
    assert recorded == "UPDATE 0", "the worker finds its claim gone"


async def test_a_negative_receipt_before_the_record_is_parked_once(pool: Pool, key_ring: KeyRing) -> None:
    key, _ = await add_claimed(pool, **SMS)
    projector = make(pool, key_ring, InMemoryProducer())
    message = told(key_ring, key, "undelivered")

    await projector(received(message))
    await pool.execute("TRUNCATE ulak.applied_receipts")
    await projector(received(message))

    assert (await delivery(pool, key))["status"] == "SENDING"
    (parked,) = await pool.fetch("SELECT * FROM ulak.parked_receipts")
    assert (parked["kind"], parked["attempt"], parked["target_key"]) == ("undelivered", 1, key.target_key)


async def test_a_stop_word_suppresses_the_number_S7(pool: Pool, key_ring: KeyRing) -> None:
    key = await add_sent(pool)

    await make(pool, key_ring, InMemoryProducer())(received(told(key_ring, key, "undelivered", code="21610")))

    (row,) = await pool.fetch("SELECT * FROM ulak.suppressions")
    assert (row["channel"], row["address_key"], row["reason"]) == ("SMS", key.target_key, "opted_out")


@pytest.mark.parametrize("code", ["30003", "30006"])
async def test_other_codes_suppress_nothing_S7(pool: Pool, key_ring: KeyRing, code: str) -> None:
    key = await add_sent(pool)

    await make(pool, key_ring, InMemoryProducer())(received(told(key_ring, key, "undelivered", code=code)))

    assert await count(pool, "suppressions") == 0
    assert (await delivery(pool, key))["status"] == "FAILED"


async def test_a_receipt_for_a_row_that_is_gone_is_ignored(pool: Pool, key_ring: KeyRing) -> None:
    gone, broker = DeliveryKey(new_id(), "SMS", b"\x07" * 32), InMemoryProducer()

    assert await make(pool, key_ring, broker)(received(told(key_ring, gone, "delivered"))) == []

    assert broker.records == []
    assert await count(pool, "delivery_log") == 0


async def test_an_event_that_was_committed_and_not_published_is_published_by_the_redelivery(
    pool: Pool, key_ring: KeyRing
) -> None:
    key, broker = await add_sent(pool), InMemoryProducer()
    batch = received(told(key_ring, key, "delivered"))
    broker.fail_next("_MSG_TIMED_OUT")

    with pytest.raises(PublishError):
        await make(pool, key_ring, broker)(batch)
    assert (await delivery(pool, key))["status"] == "DELIVERED"

    await make(pool, key_ring, broker)(batch)
    assert events(broker) == ["ulak.delivery.delivered.v1"]


async def test_poison_is_rejected_with_its_reason_and_the_rest_is_applied(pool: Pool, key_ring: KeyRing) -> None:
    key = await add_sent(pool)
    foreign = ReceiptMessage(new_id(), "acme", NOW, b"x")
    altered = ReceiptMessage(new_id(), "twilio", NOW, told(key_ring, key, "delivered").sealed)
    unreadable = told(key_ring, key, "teleported")

    rejections = await make(pool, key_ring, InMemoryProducer())(
        received(foreign, altered, told(key_ring, key, "delivered"), unreadable)
    )

    assert [(each.index, each.reason) for each in rejections] == [
        (0, "unknown_provider"),
        (1, "tampered"),
        (3, "unreadable"),
    ]
    assert (await delivery(pool, key))["status"] == "DELIVERED"


async def test_a_key_that_is_not_there_yet_makes_the_batch_wait(pool: Pool, key_ring: KeyRing) -> None:
    key = await add_sent(pool)

    with pytest.raises(UnknownKeyError):
        await make(pool, key_ring, InMemoryProducer())(received(told(OTHER_RING, key, "delivered")))
    assert (await delivery(pool, key))["status"] == "SENT"


async def test_a_key_recorded_as_lost_is_a_dead_letter_not_a_loop(pool: Pool, key_ring: KeyRing) -> None:
    lost = KeyRing(active="k1", keys=key_ring.keys, lookup_key=key_ring.lookup_key, lost=frozenset({"k2"}))
    key = await add_sent(pool)

    (rejection,) = await make(pool, lost, InMemoryProducer())(received(told(OTHER_RING, key, "delivered")))

    assert rejection.reason == "lost_key"


async def test_a_ring_that_has_got_the_key_meanwhile_is_read_again(pool: Pool, key_ring: KeyRing) -> None:
    class Rotating:
        ring = key_ring

        def refresh(self) -> bool:
            keys = {**key_ring.keys, **OTHER_RING.keys}
            self.ring = KeyRing(active="k1", keys=keys, lookup_key=key_ring.lookup_key)
            return True

    key = await add_sent(pool)
    projector = Projector(
        {"twilio": READER}, ReceiptStore(pool), InMemoryProducer(), Rotating(), clock=lambda: datetime.now(UTC)
    )

    await projector(received(told(OTHER_RING, key, "delivered")))

    assert (await delivery(pool, key))["status"] == "DELIVERED"


async def test_a_batch_of_many_deliveries_is_applied_in_one_go(pool: Pool, key_ring: KeyRing) -> None:
    keys = [await add_sent(pool) for _ in range(50)]
    broker = InMemoryProducer()
    later = NOW + timedelta(seconds=1)
    messages = [told(key_ring, key, "sent") for key in keys] + [
        told(key_ring, key, "delivered", at=later) for key in reversed(keys)
    ]

    await make(pool, key_ring, broker)(received(*messages))

    assert await pool.fetchval("SELECT count(*) FROM ulak.deliveries WHERE status = 'DELIVERED'") == 50
    assert len(events(broker)) == 50
    assert len(await log(pool)) == 100
