"""A router process for tests, the rows it starts from, and messages as its consumer hands them over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from redis.asyncio import Redis

from services.router.application import ApplicationCache
from services.router.cloudevent import CloudEvent, read_event
from services.router.content import Writer
from services.router.decider import Decider
from services.router.events import EventHandler
from services.router.frequency import Frequency
from services.router.plan import Planner
from services.router.requests import RequestHandler
from services.router.store import RouterStore
from shared.content.render import Renderer
from shared.core.address import parse_email
from shared.core.catalogue import EventMapping, NotificationType
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing, Purpose, open_sealed, seal
from shared.facts.store import FactStore
from shared.kafka.memory import InMemoryProducer
from shared.kafka.record import Received
from shared.postgres.application import Application
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.catalogue_write import Push
from shared.postgres.notification_type import NewType
from shared.postgres.pool import Pool
from shared.postgres.preference import PreferenceCache
from shared.postgres.recipient import DeviceProfile, PreferenceProfile, RecipientProfile
from shared.postgres.template import NewTemplate
from shared.redis_store.cap import FrequencyCaps
from shared.redis_store.inbox_signal import signal_inbox
from shared.runtime.keyring import FixedRingSource, RingSource
from shared.wire.channel import DEFAULT_CHANNELS, Category, MessageClass
from shared.wire.message import RequestHint

SHIPPED = NotificationType(
    "ORDER_SHIPPED",
    Category.TRANSACTIONAL,
    MessageClass.TX,
    ("PUSH", "EMAIL"),
    timedelta(hours=12),
    fallback_channels=("EMAIL",),
)
SALE = NotificationType("WINTER_SALE", Category.MARKETING, MessageClass.BULK, ("EMAIL",), timedelta(hours=6))

CATALOGUE = Push(
    applications=(Application("shop", ("/shop/orders",)),),
    types=(NewType(SHIPPED), NewType(SALE)),
    templates=(
        NewTemplate(
            "ORDER_SHIPPED",
            "EMAIL",
            "tr",
            {"subject": "{{ orderNo }} yola çıktı", "text": "Kargo: {{ carrier }}"},
            frozenset({"orderNo", "carrier"}),
        ),
        NewTemplate(
            "ORDER_SHIPPED",
            "PUSH",
            "tr",
            {"title": "Siparişiniz yolda", "body": "{{ orderNo }}, {{ carrier }}"},
            frozenset({"orderNo", "carrier"}),
        ),
        NewTemplate("WINTER_SALE", "EMAIL", "tr", {"subject": "İndirim", "text": "Kış"}, frozenset()),
    ),
    mappings=(
        EventMapping(
            name="order-shipped",
            event_type="com.example.shop.OrderShipped",
            notification_type="ORDER_SHIPPED",
            role="",
            recipient="data.customerId",
            params={"orderNo": "data.orderNo", "carrier": "data.carrier"},
            business_key="data.orderNo",
        ),
    ),
)

AYSE = RecipientProfile(
    "7",
    email=parse_email("ayse@example.com"),
    locale="tr-TR",
    time_zone="Europe/Istanbul",
    devices=(DeviceProfile("a" * 64, "IOS"), DeviceProfile("fcm-token-of-the-tablet", "ANDROID")),
)
DENIZ = RecipientProfile(
    "8",
    email=parse_email("deniz@example.com"),
    preferences=(PreferenceProfile(Category.TRANSACTIONAL, "PUSH", enabled=False),),
    devices=(DeviceProfile("b" * 64, "IOS"),),
)

ORDER = {"orderNo": "98213", "carrier": "Kargo A"}


@dataclass
class Router:
    """Handlers of one router process. `fresh()` is the same after a crash: nothing but the database is kept."""

    pool: Pool
    ring: KeyRing
    redis: Redis
    key_prefix: str
    producer: InMemoryProducer = field(default_factory=InMemoryProducer)
    ring_source: RingSource | None = None
    public_url: str | None = None

    def __post_init__(self) -> None:
        source = self.ring_source or FixedRingSource(self.ring)
        self.store = RouterStore(self.pool)
        self.catalogue = CatalogueCache(self.pool)
        self.preferences = PreferenceCache()
        self.decider = Decider(
            FactStore(self.pool, DEFAULT_CHANNELS, source, self.preferences, default_zone="Europe/Istanbul"),
            self.catalogue,
            Writer(source, Renderer(), public_url=self.public_url),
            Frequency(FrequencyCaps(self.redis, self.key_prefix), self.pool, default_zone="Europe/Istanbul"),
            Planner(DEFAULT_CHANNELS),
            DEFAULT_CHANNELS,
            "tr",
            signal=partial(signal_inbox, self.redis, self.key_prefix),
        )
        self.requests = RequestHandler(self.store, self.decider, self.producer, DEFAULT_CHANNELS, self.now)
        self.events = EventHandler(
            self.store,
            self.decider,
            self.catalogue,
            ApplicationCache(self.store),
            source,
            self.producer,
            DEFAULT_CHANNELS,
            self.now,
        )
        self.moment: datetime | None = None

    def now(self) -> datetime:
        return self.moment or datetime.now(UTC)

    def fresh(self) -> "Router":
        return Router(self.pool, self.ring, self.redis, self.key_prefix, ring_source=self.ring_source)

    def hints(self) -> list[tuple[str, str, str]]:
        """(topic, notification, channel) of every hint published, in no particular order."""
        return sorted(
            (record.topic, body["notificationId"], body["channel"])
            for record in self.producer.records
            if record.topic != "delivery-events" and (body := orjson.loads(record.value or b""))
        )

    def told(self) -> list[tuple[str, str]]:
        """(event type, reason) of every delivery event."""
        bodies = [orjson.loads(record.value or b"") for record in self.producer.on("delivery-events")]
        return sorted((body["type"], body["data"]["reason"]) for body in bodies)

    async def accept(self, user: str = "7", params: Mapping[str, Any] | None = None, **columns: Any) -> UUID:
        """A notification as ingest leaves it, ACCEPTED."""
        id_: UUID = columns.get("id") or new_id()
        now = datetime.now(UTC)
        row = {
            "id": id_,
            "application_id": await self.pool.fetchval("SELECT id FROM ulak.applications WHERE name = 'shop'"),
            "event_id": str(id_),
            "user_id": await self.pool.fetchval("SELECT user_id FROM ulak.recipients WHERE external_id = $1", user),
            "type": "ORDER_SHIPPED",
            "message_class": 1,
            "mode": "live",
            "state": "ACCEPTED",
            "params_sealed": seal(
                self.ring, Purpose.PARAMS, id_.bytes, orjson.dumps(ORDER if params is None else params)
            ),
            "expires_at": now + timedelta(hours=1),
            "created_at": now,
        } | columns
        names = ", ".join(row)
        holes = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        await self.pool.execute(f"INSERT INTO ulak.notifications ({names}) VALUES ({holes})", *row.values())
        return id_

    async def deliveries(self, id_: UUID) -> list[tuple[str, str, str | None]]:
        """(channel, status, reason) of every delivery, in key order."""
        rows = await self.pool.fetch(
            "SELECT channel, status, reason FROM ulak.deliveries WHERE notification_id = $1 "
            "ORDER BY channel, target_key",
            id_,
        )
        return [tuple(row) for row in rows]

    async def state(self, id_: UUID) -> str:
        state: str = await self.pool.fetchval("SELECT state FROM ulak.notifications WHERE id = $1", id_)
        return state

    async def content(self, id_: UUID, channel: str) -> Any:
        sealed = await self.pool.fetchval(
            "SELECT sealed FROM ulak.contents WHERE notification_id = $1 AND channel = $2", id_, channel
        )
        return orjson.loads(open_sealed(self.ring, Purpose.CONTENT, id_.bytes + channel.encode(), sealed))

    async def log(self, id_: UUID) -> list[tuple[str, str, str | None]]:
        """(channel, result, reason), in order."""
        rows = await self.pool.fetch(
            "SELECT channel, result, reason FROM ulak.delivery_log WHERE notification_id = $1 ORDER BY id", id_
        )
        return [tuple(row) for row in rows]


def hints_for(*ids: UUID) -> Sequence[Received[RequestHint]]:
    """Messages of `notification-requests-tx` as the consumer hands them over."""
    return [
        Received(RequestHint(id_), "notification-requests-tx", 0, offset, b"7", {}, datetime.now(UTC))
        for offset, id_ in enumerate(ids)
    ]


def order_shipped(event_id: str = "order-98213-SHIPPED", **changes: Any) -> dict[str, Any]:
    """The shop's event; `data=` replaces its data, other names replace attributes."""
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": "/shop/orders",
        "type": "com.example.shop.OrderShipped",
        "time": datetime.now(UTC).isoformat(),
        "data": {"customerId": 7, "orderNo": "98213", "carrier": "Kargo A"},
    } | changes


def orders_shipped(count: int) -> list[dict[str, Any]]:
    """As many events, each about an order of its own."""
    return [
        order_shipped(f"order-{number}", data={"customerId": 7, "orderNo": str(number), "carrier": "Kargo A"})
        for number in range(count)
    ]


def received_events(*events: Mapping[str, Any], offset: int = 0) -> Sequence[Received[CloudEvent]]:
    return [
        Received(
            read_event(orjson.dumps(event), {}), "domain-events", 0, offset + number, b"98213", {}, datetime.now(UTC)
        )
        for number, event in enumerate(events)
    ]
