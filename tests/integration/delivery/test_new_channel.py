"""A channel is a descriptor: a dummy one, added as a value, goes the whole way from catalogue to provider."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import orjson
import pytest
from redis.asyncio import Redis

from services.router.content import Writer
from services.router.decider import Decider
from services.router.frequency import Frequency
from services.router.plan import Planner
from services.router.requests import RequestHandler
from services.router.store import RouterStore
from shared.content.render import Renderer
from shared.core.catalogue import NotificationType
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing, Purpose, seal
from shared.facts.store import FactStore
from shared.kafka.memory import InMemoryProducer
from shared.kafka.record import Received
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.catalogue_write import Push, push_catalogue
from shared.postgres.notification_type import NewType
from shared.postgres.pool import Pool
from shared.postgres.preference import PreferenceCache
from shared.postgres.recipient import PreferenceProfile, RecipientProfile, push_recipients
from shared.postgres.template import NewTemplate
from shared.redis_store.cap import FrequencyCaps
from shared.redis_store.inbox_signal import signal_inbox
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import (
    DEFAULT_CHANNELS,
    SMS,
    AddressKind,
    Category,
    Channels,
    ChannelSpec,
    MessageClass,
    Promise,
)
from shared.wire.message import DeliveryHint, RequestHint, decode
from shared.wire.topic import declared_topics, notification_requests
from tests.integration.delivery.world import ScriptedSender, make_world

pytestmark = pytest.mark.postgres

FAX: Final = ChannelSpec(
    name="FAX",
    address_kind=AddressKind.PHONE,
    lanes=tuple(
        replace(SMS.lane(each), name=f"fax-{each.label}", channel="FAX")
        for each in (MessageClass.TX, MessageClass.BULK)
    ),
    default_promise=Promise.AT_LEAST_ONCE,
    consent_purpose="MARKETING_FAX",
    content_fields=("text",),
)
CHANNELS: Final = Channels((*DEFAULT_CHANNELS.specs, FAX))
INVOICE: Final = NotificationType("INVOICE", Category.TRANSACTIONAL, MessageClass.TX, ("FAX",), timedelta(hours=12))
OFFER: Final = NotificationType("OFFER", Category.MARKETING, MessageClass.BULK, ("FAX",), timedelta(hours=12))


@dataclass(frozen=True)
class Office:
    """A router that knows of FAX, and users 1 (nothing said), 2 (wants no fax), 3 (has no number)."""

    pool: Pool
    ring: KeyRing
    handler: RequestHandler
    out: InMemoryProducer

    async def decide(self, user: str, type_: NotificationType) -> UUID:
        id_, now = new_id(), datetime.now(UTC)
        await self.pool.execute(
            "INSERT INTO ulak.notifications (id, application_id, event_id, user_id, type, message_class, mode, state,"
            " params_sealed, expires_at, created_at) SELECT $1, 1, $2, user_id, $3, $4, 'live', 'ACCEPTED', $5, $6, $7"
            " FROM ulak.recipients WHERE external_id = $8",
            *(id_, str(id_), type_.name, int(type_.message_class)),
            seal(self.ring, Purpose.PARAMS, id_.bytes, orjson.dumps({"no": "7"})),
            *(now + timedelta(hours=12), now, user),
        )
        topic = notification_requests(type_.message_class)
        assert await self.handler([Received(RequestHint(id_), topic, 0, 0, b"7", {}, now)]) == []
        return id_

    async def log(self, id_: UUID) -> list[tuple[str, str, str | None]]:
        rows = await self.pool.fetch(
            "SELECT channel, result, reason FROM ulak.delivery_log WHERE notification_id = $1 ORDER BY id", id_
        )
        return [tuple(row) for row in rows]


@pytest.fixture
async def office(pool: Pool, key_ring: KeyRing, redis_client: Redis, key_prefix: str) -> AsyncIterator[Office]:
    texts = {"text": "Fatura {{ no }}"}
    async with pool.acquire() as connection, connection.transaction():
        await push_catalogue(
            connection,
            Push(
                types=(NewType(INVOICE), NewType(OFFER)),
                templates=tuple(
                    NewTemplate(each.name, "FAX", "tr", texts, frozenset({"no"})) for each in (INVOICE, OFFER)
                ),
            ),
        )
    refuses = (PreferenceProfile(Category.TRANSACTIONAL, "FAX", enabled=False),)
    await push_recipients(
        pool,
        key_ring,
        [
            RecipientProfile("1", phone="+905321234567"),
            RecipientProfile("2", phone="+905321234568", preferences=refuses),
            RecipientProfile("3"),
        ],
    )
    await redis_client.set(f"{key_prefix}cap:epoch", int((time.time() - 3 * 86_400) * 1000))
    rings, zone = FixedRingSource(key_ring), "Europe/Istanbul"
    decider = Decider(
        FactStore(pool, CHANNELS, rings, PreferenceCache(), default_zone=zone),
        CatalogueCache(pool),
        Writer(rings, Renderer(CHANNELS)),
        Frequency(FrequencyCaps(redis_client, key_prefix), pool, default_zone=zone),
        Planner(CHANNELS),
        CHANNELS,
        "tr",
        signal=partial(signal_inbox, redis_client, key_prefix),
    )
    out = InMemoryProducer()
    yield Office(
        pool, key_ring, RequestHandler(RouterStore(pool), decider, out, CHANNELS, lambda: datetime.now(UTC)), out
    )
    async for key in redis_client.scan_iter(match=f"{key_prefix}*"):
        await redis_client.delete(key)


@pytest.mark.redis
async def test_from_its_catalogue_entry_to_its_provider(office: Office) -> None:
    id_ = await office.decide("1", INVOICE)
    (record,) = office.out.on("fax-tx")
    hint = decode(DeliveryHint, record.value)
    assert (hint.notification_id, hint.channel) == (id_, "FAX")

    fax = ScriptedSender("acme-fax", outcomes=[])
    world = make_world("fax-tx", office.pool, office.ring, sender=fax, lane=CHANNELS.lane("fax-tx"), channels=CHANNELS)
    assert list(await world.pipeline([Received(hint, "fax-tx", 0, 0, b"7", {}, datetime.now(UTC))])) == []
    (sent,) = fax.sent
    assert (sent.address, sent.content) == ("+905321234567", {"text": "Fatura 7"})
    assert world.statuses() == [("SENT", None)]
    assert (await world.seeder.row(sent.key))["promise"] == "AT_LEAST_ONCE"


@pytest.mark.redis
@pytest.mark.parametrize(
    ("user", "type_", "reason"),
    [
        pytest.param("2", INVOICE, "preference", id="preference"),
        pytest.param("3", INVOICE, "no_target", id="no-number"),
        pytest.param("1", OFFER, "no_consent", id="its-own-consent"),
    ],
)
async def test_the_chain_holds_for_it(office: Office, user: str, type_: NotificationType, reason: str) -> None:
    id_ = await office.decide(user, type_)
    assert [("FAX", reason)] == [(channel, why) for channel, _, why in await office.log(id_)]
    assert office.out.on("fax-tx") == office.out.on("fax-bulk") == []


@pytest.mark.kafka
async def test_its_topics_are_made_with_the_others(kafka_settings: KafkaSettings) -> None:
    specs = declared_topics(CHANNELS, max_partitions=1)
    own = [spec for spec in specs if spec not in declared_topics(max_partitions=1)]
    assert {spec.name for spec in own} == {
        *("fax-tx", "fax-tx-retry-10s", "fax-tx-retry-1m", "fax-tx-retry-10m", "fax-tx-retry-1h", "fax-tx-dlq"),
        *("fax-bulk", "fax-bulk-retry-10m", "fax-bulk-retry-1h", "fax-bulk-dlq"),
    }
    await apply(kafka_settings, own)
    assert (await apply(kafka_settings, own)).created == ()
