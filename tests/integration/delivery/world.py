"""A small world for the pipeline: rows in a real database, scripted senders, a pipeline over an in-memory producer."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from shared.core.breaker import Policy, Switch
from shared.core.identifier import new_id
from shared.core.outcome import Accepted, NotSent, Outcome
from shared.core.ports import Prepared, SendWindow
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing, Purpose, keyed_hash, seal
from shared.delivery.consent import ConsentCheck
from shared.delivery.hours import AllowedHours
from shared.delivery.opening import Opening, Preparation
from shared.delivery.order import LaneOrder, in_turn
from shared.delivery.pause import Pauses
from shared.delivery.pipeline import Pipeline
from shared.delivery.route import Routes
from shared.delivery.store import DeliveryStore
from shared.kafka.memory import InMemoryProducer
from shared.kafka.record import Received
from shared.postgres.control_watch import ControlWatch
from shared.postgres.pool import Pool
from shared.redis_store.breaker import Breakers, Told
from shared.redis_store.pacer import Pacer
from shared.redis_store.token_bucket import Quota, TokenBuckets
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import DEFAULT_CHANNELS, Channels, Lane, MessageClass, Promise
from shared.wire.message import DeliveryHint, decode

CONTENT = {
    "SMS": {"text": "Kodunuz hazır"},
    "PUSH": {"title": "Kargonuz yolda", "body": "Siparişiniz bugün teslim edilecek"},
    "EMAIL": {"subject": "Siparişiniz kargoda", "text": "Merhaba,\nsiparişiniz yola çıktı.\n"},
}
ADDRESS = {"SMS": "+905321234567", "PUSH": "a1" * 32, "EMAIL": "ayse@example.com"}


@dataclass(frozen=True, slots=True)
class Seeded:
    key: DeliveryKey
    hint: DeliveryHint


class Seeder:
    """Writes the rows that ingest and router would have written."""

    def __init__(self, pool: Pool, ring: KeyRing) -> None:
        self.pool = pool
        self.ring = ring

    async def delivery(
        self,
        channel: str = "SMS",
        *,
        message_class: MessageClass = MessageClass.TX,
        promise: Promise | None = None,
        address: str | None = None,
        content: Mapping[str, str] | None = None,
        purpose: Purpose = Purpose.CONTENT,
        expires_in_sec: float = 3600,
        mode: str = "live",
        state: str = "DECIDED",
        platform: str | None = "IOS",
        type_name: str = "ORDER_SHIPPED",
        columns: Mapping[str, Any] | None = None,
    ) -> Seeded:
        """One notification with one PENDING delivery and its content; `columns` overrides the delivery's."""
        now = datetime.now(UTC)
        notification_id = new_id()
        address = address or ADDRESS[channel]
        target = keyed_hash(self.ring, f"target:{channel}", address)
        key = DeliveryKey(notification_id, channel, target)
        sealed_content = seal(
            self.ring,
            purpose,
            notification_id.bytes + channel.encode(),
            orjson.dumps(dict(content or CONTENT[channel])),
        )
        default = DEFAULT_CHANNELS.spec(channel).default_promise
        row: dict[str, Any] = {
            "notification_id": notification_id,
            "channel": channel,
            "target_key": target,
            "address_sealed": seal(self.ring, Purpose.ADDRESS, target, address.encode()),
            "platform": platform if channel == "PUSH" else None,
            "status": "PENDING",
            "message_class": int(message_class),
            "promise": promise or default,
            "mode": mode,
            "attempt": 0,
            "next_attempt_at": now,
            "expires_at": now + timedelta(seconds=expires_in_sec),
            "created_at": now,
            "updated_at": now,
            **(columns or {}),
        }
        await self.pool.execute(
            """INSERT INTO ulak.notifications
               (id, application_id, event_id, type, message_class, mode, state, expires_at, created_at)
               VALUES ($1, 1, $2, $3, $4, $5, $6, $7, $8)""",
            notification_id,
            str(notification_id),
            type_name,
            int(message_class),
            mode,
            state,
            row["expires_at"],
            now,
        )
        names = ", ".join(row)
        places = ", ".join(f"${index}" for index in range(1, len(row) + 1))
        await self.pool.execute(f"INSERT INTO ulak.deliveries ({names}) VALUES ({places})", *row.values())
        await self.pool.execute(
            "INSERT INTO ulak.contents (notification_id, channel, sealed, purpose, locale, template_version) "
            "VALUES ($1, $2, $3, $4, 'tr', 1)",
            notification_id,
            channel,
            sealed_content,
            purpose,
        )
        hint = DeliveryHint(
            notification_id=notification_id,
            channel=channel,
            target_key=target,
            attempt=row["attempt"],
            message_class=message_class,
        )
        return Seeded(key, hint)

    async def row(self, key: DeliveryKey) -> Mapping[str, Any]:
        record = await self.pool.fetchrow(
            "SELECT * FROM ulak.deliveries WHERE notification_id = $1 AND channel = $2 AND target_key = $3",
            key.notification_id,
            key.channel,
            key.target_key,
        )
        assert record is not None
        return dict(record)

    async def leases(self) -> int:
        return int(await self.pool.fetchval("SELECT count(*) FROM ulak.leases"))

    async def log(self, key: DeliveryKey) -> list[tuple[str, str]]:
        records = await self.pool.fetch(
            "SELECT kind, result FROM ulak.delivery_log WHERE notification_id = $1 ORDER BY id", key.notification_id
        )
        return [(record[0], record[1]) for record in records]


@dataclass
class ScriptedSender:
    """A sender whose answers are given: `outcomes` in turn per message, then Accepted. Keeps what it was handed."""

    provider: str = "twilio"
    concurrency: int = 50
    outcomes: list[Outcome] = field(default_factory=list)
    sent: list[Prepared] = field(default_factory=list)
    gate: asyncio.Event | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    during: Callable[[], Any] | None = None
    batches: list[int] = field(default_factory=list)

    async def send(self, batch: Sequence[Prepared], window: SendWindow) -> Sequence[Outcome]:
        self.batches.append(len(batch))
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        answers: list[Outcome] = []
        for message in batch:
            if not window.may_start():
                answers.append(NotSent("stopping"))
                continue
            self.sent.append(message)
            if self.during is not None:
                await self.during()
            answers.append(self.outcomes.pop(0) if self.outcomes else Accepted(f"id-{len(self.sent)}"))
        return answers


class NoRedis:
    """Stands where no quota is configured: nothing ever asks it."""


@dataclass
class World:
    """One lane's pipeline and what it published."""

    lane: Lane
    seeder: Seeder
    sender: ScriptedSender
    producer: InMemoryProducer
    pipeline: Pipeline
    stopping: list[bool]

    def received(self, *seeded: Seeded, topic: str | None = None) -> list[Received[DeliveryHint]]:
        return [
            Received(
                value=each.hint,
                topic=topic or self.lane.topic,
                partition=0,
                offset=offset,
                key=b"user-1",
                headers={"traceparent": b"00-trace"},
                timestamp=datetime.now(UTC),
            )
            for offset, each in enumerate(seeded)
        ]

    async def work(self, *seeded: Seeded) -> list[tuple[int, str]]:
        rejections = await self.pipeline(self.received(*seeded))
        return [(rejection.index, rejection.reason) for rejection in rejections]

    def events(self) -> list[dict[str, Any]]:
        return [orjson.loads(record.value or b"") for record in self.producer.on("delivery-events")]

    def statuses(self) -> list[tuple[str, str | None]]:
        return [(event["data"]["status"], event["data"]["reason"]) for event in self.events()]

    def hints(self, tier_sec: int | None = None) -> list[DeliveryHint]:
        topic = self.lane.topic if tier_sec is None else self.lane.retry_topic(tier_sec)
        return [decode(DeliveryHint, record.value) for record in self.producer.on(topic)]


def first_to_last(*providers: str) -> LaneOrder:
    """The same order for whatever address."""
    return LaneOrder({"": in_turn(providers)}, {"": providers[0]})


async def _nobody_told(_account: str, _message_class: MessageClass, _switch: Switch) -> None:
    """Where a test does not ask what breakers did."""


def own_breakers(*, told: Told = _nobody_told, clock: Callable[[], float] = time.time) -> Breakers:
    """Of one worker without Redis, as a lane has them by default."""
    return Breakers(None, Policy(), told=told, retry_sec=1.0, clock=clock)


def make_world(
    lane_name: str,
    pool: Pool,
    ring: KeyRing,
    *,
    sender: ScriptedSender | None = None,
    senders: Mapping[str, Any] | None = None,
    order: LaneOrder | None = None,
    breakers: Breakers | None = None,
    buckets: TokenBuckets | None = None,
    quotas: Mapping[str, Quota] | None = None,
    lane: Lane | None = None,
    prepare: Preparation | None = None,
    watch: ControlWatch | None = None,
    channels: Channels = DEFAULT_CHANNELS,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> World:
    lane = lane or DEFAULT_CHANNELS.lane(lane_name)
    scripted = sender or ScriptedSender()
    producer = InMemoryProducer()
    stopping = [False]
    pacer = Pacer(
        buckets or NoRedis(),  # type: ignore[arg-type]  # never asked without a quota
        quotas or {},
        workers=1,
        retry_sec=1.0,
    )
    pipeline = Pipeline(
        lane,
        store=DeliveryStore(pool, lane),
        consents=ConsentCheck(pool, channels.spec(lane.channel), FixedRingSource(ring)),
        senders=senders if senders is not None else {scripted.provider: scripted},
        routes=Routes(lane, order or first_to_last(scripted.provider), breakers or own_breakers()),
        prepare=prepare or Opening(FixedRingSource(ring)),
        hours=AllowedHours(pool, lane, default_zone="Europe/Istanbul"),
        pauses=Pauses(lane, pool=pool, watch=watch or ControlWatch(pool), publisher=producer),
        pacer=pacer,
        publisher=producer,
        stopping=lambda: stopping[0],
        clock=clock,
        jitter=lambda: 0.0,
    )
    return World(lane, Seeder(pool, ring), scripted, producer, pipeline, stopping)


async def until(holds: Callable[[], Any], *, timeout_sec: float = 60.0, what: str = "the condition") -> None:
    """Poll until it holds; AssertionError after the time."""
    deadline = time.monotonic() + timeout_sec
    while True:
        answer = holds()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return
        assert time.monotonic() < deadline, f"{what} did not come true in {timeout_sec} s"
        await asyncio.sleep(0.02)
