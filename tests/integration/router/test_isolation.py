"""A campaign that stands still in the router holds up no login code."""

from functools import partial
from uuid import UUID

import pytest

from shared.core.sealing import KeyRing
from shared.kafka.producer import Producer
from shared.kafka.record import Record
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.wire.channel import MessageClass
from shared.wire.message import RequestHint, encode
from shared.wire.topic import declared_topics, notification_requests
from tests.integration.delivery.world import until
from tests.integration.router.stage import Router
from tests.integration.router.test_process import NEEDED, running

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.redis]

_BACKLOG = 2_000
_LANES = {"push-critical", "email-critical", "push-bulk", "email-bulk"}


async def test_an_urgent_request_passes_a_campaign_that_has_every_bulk_connection(
    router: Router, database: str, key_ring: KeyRing, kafka_settings: KafkaSettings, redis_url: str
) -> None:
    specs = [spec for spec in declared_topics(max_partitions=1) if spec.name in NEEDED | _LANES]
    await apply(kafka_settings, specs)
    bulk = [await router.accept(message_class=int(MessageClass.BULK)) for _ in range(_BACKLOG)]
    pool = router.pool

    async def stuck() -> bool:
        waiting: int = await pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND query LIKE '%ulak.notifications%'"
        )
        return waiting >= 2

    async def decided(message_class: MessageClass) -> int:
        count: int = await pool.fetchval(
            "SELECT count(*) FROM ulak.notifications WHERE message_class = $1 AND state = 'DECIDED'", int(message_class)
        )
        return count

    async def all_decided(message_class: MessageClass, count: int) -> bool:
        return await decided(message_class) == count

    async with running(database, key_ring, kafka_settings, redis_url), Producer.open(kafka_settings, name="t") as out:

        async def ask(message_class: MessageClass, *ids: UUID) -> None:
            hints = [encode(RequestHint(id_)) for id_ in ids]
            topic = notification_requests(message_class)
            await out.publish([Record(topic, b"7", value, headers) for value, headers in hints])

        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT 1 FROM ulak.notifications WHERE message_class = 2 FOR UPDATE")
            await ask(MessageClass.BULK, *bulk)
            await until(stuck, what="both batches of the campaign waiting for their rows")
            for number in range(1, 6):
                await ask(MessageClass.CRITICAL, await router.accept(message_class=int(MessageClass.CRITICAL)))
                await until(partial(all_decided, MessageClass.CRITICAL, number), what="the urgent decision")
            assert await decided(MessageClass.BULK) == 0
        await until(partial(all_decided, MessageClass.BULK, _BACKLOG), timeout_sec=120, what="the campaign's end")
