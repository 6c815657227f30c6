"""The seed's story, with the seed's own data (003, API): each chapter does one thing and proves what came of it."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ops.demo.chapter import AYSE, Chapter, Line, Told
from ops.demo.inbox import order_placed
from ops.demo.sale import november_sale
from ops.demo.world import DidNotHappenError, World, eventually, instant
from shared.kafka.dead_letters import HEADER_ERROR_CLASS
from shared.kafka.producer import Record
from shared.wire.topic import DOMAIN_EVENTS, ROUTER_DLQ

ORDER_NO: Final = "98213"
CARRIER: Final = "Kargo A"
DENIZ: Final = 8
"""Switched push off for transactional messages."""
AYSE_EMAIL: Final = "ayse@example.com"
DENIZ_EMAIL: Final = "deniz@example.com"
OTP_CODE: Final = "482913"
OTP_LIFE_SEC: Final = 180
OTP_PHONE: Final = "+905321234567"
RETRY_PHONE: Final = "+905321234599"
SETTLED: Final = frozenset({"SENT", "DELIVERED", "FAILED", "SKIPPED", "UNKNOWN"})


async def order_shipped(world: World) -> Told:
    event_id = await world.shop.ship(order_no=ORDER_NO, customer_id=AYSE, carrier=CARRIER)
    notification = await _settled(world, event_id, deliveries=3)
    pushes = [*await world.arrived("apns"), *await world.arrived("fcm")]
    mails = await world.arrived("smtp", AYSE_EMAIL)
    if len(pushes) != 2 or len(mails) != 1:
        raise DidNotHappenError(f"two pushes and one e-mail were due; {len(pushes)} and {len(mails)} arrived")
    accepted = instant(notification["createdAt"])
    lines = [Line(f"push to {_device(push)}", push["provider"], _took(push, accepted)) for push in pushes]
    lines.append(Line(f"e-mail to {AYSE_EMAIL}", "smtp", _took(mails[0], accepted)))
    return Told(lines, quote=_as_received(mails[0]), notification_id=notification["notificationId"])


async def same_event_again(world: World) -> Told:
    before = await _total_arrived(world)
    await world.shop.ship(order_no=ORDER_NO, customer_id=AYSE, carrier=CARRIER)
    # A later event of the same key is on the same partition: once it is through, so is the repeated one.
    marker = await world.shop.ship(order_no="98213-2", customer_id=DENIZ, carrier=CARRIER, key=ORDER_NO)
    await _settled(world, marker, deliveries=2)
    known = await world.ulak.fetchval(
        "SELECT count(*) FROM ulak.notification_dedup WHERE key = $1", f"order-{ORDER_NO}-SHIPPED"
    )
    after = await _total_arrived(world)
    repeated = {"apns": after["apns"] - before["apns"], "fcm": after["fcm"] - before["fcm"]}
    if known != 1 or any(repeated.values()):
        raise DidNotHappenError(f"the repeated event was sent again: {repeated}, {known} notifications")
    return Told([Line("the same event again", "recognised, nothing sent")])


async def preference(world: World) -> Told:
    event_id = await world.shop.ship(order_no="98214", customer_id=DENIZ, carrier=CARRIER)
    notification = await _settled(world, event_id, deliveries=2)
    by_channel = {delivery["channel"]: delivery for delivery in notification["deliveries"]}
    if by_channel["PUSH"]["status"] != "SKIPPED" or by_channel["EMAIL"]["status"] not in {"SENT", "DELIVERED"}:
        raise DidNotHappenError(f"push should be skipped and e-mail sent, but: {by_channel}")
    mail = (await world.arrived("smtp", DENIZ_EMAIL))[-1]
    return Told(
        [
            Line("push", f"not sent: {by_channel['PUSH'].get('reason')}"),
            Line(f"e-mail to {DENIZ_EMAIL}", "smtp", _took(mail, instant(notification["createdAt"]))),
        ]
    )


async def login_code(world: World) -> Told:
    started = datetime.now(UTC)
    await _otp(world, "demo-otp-1", OTP_PHONE)
    message = await eventually(lambda: _first(world, "twilio", OTP_PHONE), "the login code at the SMS provider")
    if OTP_CODE not in str(message["content"]):
        raise DidNotHappenError("the SMS that arrived does not hold the code")
    return Told([Line(f"SMS to {OTP_PHONE}: code {OTP_CODE}", "twilio", _took(message, started))])


async def provider_stumbles(world: World) -> Told:
    await world.fault("twilio", to=RETRY_PHONE, status=503, times=2)
    started = datetime.now(UTC)
    await _otp(world, "demo-otp-2", RETRY_PHONE)

    async def accepted() -> list[dict[str, Any]] | None:
        calls = await world.arrived("twilio", RETRY_PHONE)
        return calls if any(call["accepted"] for call in calls) else None

    # Tiers of otp-sms are 5 s and 15 s, each with up to a quarter of jitter.
    calls = await eventually(accepted, "the third try", within_sec=40)
    if [call["accepted"] for call in calls] != [False, False, True]:
        raise DidNotHappenError(f"two refusals and one acceptance were due, seen: {[c['accepted'] for c in calls]}")
    return Told(
        [
            Line(f"try {number}", "twilio: 503" if number < 3 else "twilio: accepted", _took(call, started))
            for number, call in enumerate(calls, 1)
        ]
    )


async def poison(world: World) -> Told:
    await world.producer.publish([Record(topic=DOMAIN_EVENTS, key=b"poison", value=b'{"specversion": "1.0", "id":')])

    async def dead_letter() -> str | None:
        return await asyncio.to_thread(_last_error, world.kafka.bootstrap_servers, world.kafka.names.full(ROUTER_DLQ))

    reason = await eventually(dead_letter, "the dead letter")
    event_id = await world.shop.ship(order_no="98215", customer_id=DENIZ, carrier=CARRIER)
    await _settled(world, event_id, deliveries=2)
    return Told([Line("a broken event", f"{ROUTER_DLQ}: {reason}"), Line("the event behind it", "delivered")])


STORY: Final[Sequence[Chapter]] = (
    Chapter("An order ships: two pushes and an e-mail", order_shipped),
    Chapter("The same event again", same_event_again),
    Chapter("A user who switched push off", preference),
    Chapter(f"A login code ({OTP_LIFE_SEC} s to live)", login_code),
    Chapter("A provider answers 503 twice, the third try arrives", provider_stumbles, alongside=True),
    Chapter("A sale: to nobody who did not say yes", november_sale),
    Chapter("An order is placed: an e-mail, and an entry in the app's inbox", order_placed),
    Chapter("A poison message", poison),
)


async def _otp(world: World, request_id: str, phone: str) -> None:
    await world.accept_otp(
        {"requestId": request_id, "phone": phone, "code": OTP_CODE, "expiresInSeconds": OTP_LIFE_SEC, "locale": "tr"}
    )


async def _settled(world: World, event_id: str, *, deliveries: int) -> dict[str, Any]:
    """The notification of an event once all its deliveries are in a final state."""

    async def look() -> dict[str, Any] | None:
        notification = await world.notification(event_id=event_id)
        if notification is None or len(notification["deliveries"]) != deliveries:
            return None
        return notification if all(d["status"] in SETTLED for d in notification["deliveries"]) else None

    return await eventually(look, f"{deliveries} settled deliveries of {event_id}")


async def _first(world: World, provider: str, to: str) -> dict[str, Any] | None:
    messages = await world.arrived(provider, to)
    return messages[0] if messages else None


async def _total_arrived(world: World) -> Mapping[str, int]:
    return {provider: len(await world.arrived(provider)) for provider in ("apns", "fcm")}


def _took(message: Mapping[str, Any], since: datetime) -> float:
    return max(0.0, (instant(message["receivedAt"]) - since).total_seconds())


def _device(push: Mapping[str, Any]) -> str:
    return {"apns": "the phone", "fcm": "the tablet"}[push["provider"]]


def _as_received(mail: Mapping[str, Any]) -> str:
    content = mail["content"]
    headers = content["headers"]
    shown = [f"{name}: {headers[name]}" for name in ("From", "To", "Subject", "Date", "Message-ID") if name in headers]
    return "\n".join([*shown, "", content["text"].rstrip()])


def _last_error(bootstrap: str, topic: str) -> str | None:
    """The error class in the newest dead letter of a topic, read from the broker itself; None while it is empty."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "ulak-demo-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=5).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
        message = consumer.poll(3)
        if message is None or message.error():
            return None
        return str(dict(message.headers() or [])[HEADER_ERROR_CLASS], "utf-8")  # type: ignore[arg-type]  # always bytes
    finally:
        consumer.close()
