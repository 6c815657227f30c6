"""No more marketing a day than the cap allows, whatever happens to routers, Redis and commits in between."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from redis.asyncio import Redis

from services.router.store import RouterStore
from shared.core.consent import user_subject
from shared.core.identifier import new_id
from shared.postgres.catalogue_write import Push, push_catalogue
from shared.postgres.errors import PostgresError, UnavailableError
from shared.postgres.template import NewTemplate
from shared.redis_store.cap import COMMIT_WITHIN, SETTLE
from shared.redis_store.client import open_redis
from shared.redis_store.settings import RedisSettings
from tests.integration.router.stage import SALE, Router, hints_for, order_shipped, received_events

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

Rows = list[tuple[str, str, str | None]]
MARKETING: dict[str, Any] = {"type": SALE.name, "message_class": 2, "channels": ["PUSH"]}
GONE: Rows = [("PUSH", "PENDING", None), ("PUSH", "PENDING", None)]
CAPPED: Rows = [("PUSH", "SKIPPED", "capped")]


@pytest.fixture
async def shop(router: Router) -> Router:
    """A push sale at any hour of the day, to which both users have agreed."""
    push = NewTemplate(SALE.name, "PUSH", "tr", {"title": "İndirim", "body": "{{ what|default('Kış') }}"}, frozenset())
    async with router.pool.acquire() as connection, connection.transaction():
        await push_catalogue(connection, Push(templates=(push,)))
    await router.pool.execute("UPDATE ulak.notification_types SET quiet_hours = '{}'")
    for row in await router.pool.fetch("SELECT user_id FROM ulak.recipients"):
        await router.pool.execute(
            "INSERT INTO ulak.consent_states (subject, channel, purpose, granted, at, consent_id) "
            "VALUES ($1, 'PUSH', 'MARKETING', true, now(), $2)",
            user_subject(router.ring, row["user_id"]),
            new_id(),
        )
    return router


async def decided(router: Router, *ids: UUID) -> list[list[tuple[str, str, str | None]]]:
    await router.requests(hints_for(*ids))
    return [await router.deliveries(id_) for id_ in ids]


async def sales(router: Router, count: int) -> list[UUID]:
    return [await router.accept(**MARKETING) for _ in range(count)]


async def empty(router: Router, *, since: timedelta) -> None:
    """Redis loses all it has; then so much time passes."""
    async for key in router.redis.scan_iter(match=f"{router.key_prefix}*"):
        await router.redis.delete(key)
    await router.redis.set(f"{router.key_prefix}cap:epoch", int((time.time() - since.total_seconds()) * 1000))


async def test_of_hundred_at_once_by_two_routers_exactly_three_go(shop: Router) -> None:
    ids = await sales(shop, 100)
    routers = [shop.fresh(), shop.fresh()]
    parts: Sequence[Sequence[UUID]] = [ids[start::10] for start in range(10)]
    await asyncio.gather(*(routers[n % 2].requests(hints_for(*part)) for n, part in enumerate(parts)))
    found = [await shop.deliveries(id_) for id_ in ids]
    assert (found.count(GONE), found.count(CAPPED)) == (3, 97)


async def test_a_redelivery_and_a_crash_before_the_commit_count_once(shop: Router) -> None:
    first, second, *rest = await sales(shop, 5)
    await shop.decider.decide(await shop.store.load([first]), shop.now())  # reserved, and killed before the commit
    assert await decided(shop.fresh(), first, second) == [GONE, GONE]
    assert await decided(shop.fresh(), first, second) == [GONE, GONE]
    assert await decided(shop, *rest) == [GONE, CAPPED, CAPPED]


async def test_each_user_and_each_calendar_day_of_theirs_has_its_own_T5(shop: Router) -> None:
    await shop.pool.execute("UPDATE ulak.frequency_caps SET per_day = 1")
    midnight = datetime.now(UTC).replace(hour=21, minute=0, second=0, microsecond=0)  # in Istanbul
    if midnight > datetime.now(UTC):
        midnight -= timedelta(days=1)
    expires = midnight + timedelta(days=1)
    ids = [await shop.accept(**MARKETING, expires_at=expires) for _ in range(4)]
    shop.moment = midnight - timedelta(minutes=10)
    assert await decided(shop, *ids[:2]) == [GONE, CAPPED]
    shop.moment = midnight + timedelta(minutes=10)
    assert await decided(shop, *ids[2:]) == [GONE, CAPPED]
    other = await shop.accept("8", **MARKETING, expires_at=expires)
    assert await decided(shop, other) == [[("PUSH", "PENDING", None)]]


async def test_what_goes_nowhere_takes_no_place(shop: Router) -> None:
    await shop.pool.execute("UPDATE ulak.frequency_caps SET per_day = 1")
    unwritable = await shop.accept(**MARKETING, params={"what": "x" * 5000})
    expired = await shop.accept(**MARKETING, expires_at=datetime.now(UTC))
    trial = await shop.accept(**MARKETING, mode="test")
    assert [{row[1] for row in rows} for rows in await decided(shop, unwritable, expired, trial)] == [
        *({"FAILED"}, {"SKIPPED"}, {"PENDING"})
    ]
    assert await decided(shop, *await sales(shop, 2)) == [GONE, CAPPED]


async def test_the_same_content_again_takes_no_place(shop: Router) -> None:
    await shop.pool.execute("UPDATE ulak.frequency_caps SET per_day = 2")
    first, again = [await shop.accept(**MARKETING, business_key="winter") for _ in range(2)]
    duplicate = [("PUSH", "SKIPPED", "duplicate_content")]
    assert await decided(shop, first, again) == [GONE, duplicate]  # reserved together, given back after the commit
    assert await decided(shop, await shop.accept(**MARKETING, business_key="winter")) == [duplicate]
    assert await decided(shop, *await sales(shop, 2)) == [GONE, CAPPED]


async def test_an_event_that_is_tried_again_under_another_id_counts_once(shop: Router) -> None:
    await shop.pool.execute("UPDATE ulak.notification_types SET category = 'MARKETING'")
    await shop.pool.execute("UPDATE ulak.frequency_caps SET per_day = 1")
    event = received_events(order_shipped())
    shop.store._clock = lambda: time.monotonic() + COMMIT_WITHIN.total_seconds() + 1  # each transaction comes too late
    for _ in range(2):
        with pytest.raises(PostgresError):
            await shop.events(event)
    await shop.fresh().events(event)
    (row,) = await shop.pool.fetch("SELECT id FROM ulak.notifications")
    assert [d for d in await shop.deliveries(row["id"]) if d[0] == "PUSH"] == GONE


async def test_without_redis_marketing_waits_and_nothing_else_does(shop: Router) -> None:
    sale, order = await shop.accept(**MARKETING), await shop.accept()
    settings = RedisSettings(url="redis://127.0.0.1:1/0", timeout_sec=0.2)
    async with open_redis(settings) as gone:
        away = replace(shop, redis=gone)
        assert await away.requests(hints_for(sale, order)) == []
        assert (await shop.state(sale), await shop.state(order)) == ("DEFERRED", "DECIDED")
        assert await shop.log(sale) == [("PUSH", "defer", "capped")]
        due = await shop.pool.fetchval("SELECT due_at FROM ulak.deferred WHERE notification_id = $1", sale)
        assert timedelta(0) < due - datetime.now(UTC) <= timedelta(seconds=40)
        await away.requests(hints_for(sale))  # due, and still no Redis: it goes on waiting, told once
        assert await shop.log(sale) == [("PUSH", "defer", "capped")]
    assert await decided(shop, sale) == [GONE]
    assert await shop.pool.fetchval("SELECT count(*) FROM ulak.deferred") == 0


async def test_an_emptied_redis_is_filled_from_postgres_before_marketing_goes_on(shop: Router) -> None:
    first, second, *rest = await sales(shop, 5)
    assert await decided(shop, first, second) == [GONE, GONE]
    await empty(shop, since=timedelta(0))
    before = datetime.now(UTC)
    await shop.requests(hints_for(*rest))
    assert {await shop.state(id_) for id_ in rest} == {"DEFERRED"}
    due = await shop.pool.fetchval("SELECT max(due_at) FROM ulak.deferred")
    assert before < due <= datetime.now(UTC) + SETTLE + timedelta(seconds=10)

    await empty(shop, since=SETTLE * 2)
    assert await decided(shop.fresh(), *rest) == [GONE, CAPPED, CAPPED]


async def test_scripts_forgotten_in_between_change_nothing_R3(shop: Router, redis_client: Redis) -> None:
    ids = await sales(shop, 4)
    assert await decided(shop, ids[0]) == [GONE]
    await redis_client.script_flush()
    assert await decided(shop, *ids[1:]) == [GONE, GONE, CAPPED]


async def test_a_transaction_that_outlives_its_reservation_is_decided_again(shop: Router) -> None:
    """Had Redis been emptied meanwhile, nobody could have known of it."""
    (id_,) = await sales(shop, 1)
    plans = (await shop.decider.decide(await shop.store.load([id_]), shop.now())).plans
    late = RouterStore(shop.pool, clock=lambda: time.monotonic() + COMMIT_WITHIN.total_seconds() + 1)
    with pytest.raises(UnavailableError, match="decide again"):
        await late.save(plans, shop.now())
    assert await shop.state(id_) == "ACCEPTED"
    assert await decided(shop, id_) == [GONE]


async def test_a_cap_that_operators_set_counts_at_once_where_they_are_heard(shop: Router) -> None:
    assert await decided(shop, *await sales(shop, 1)) == [GONE]
    await shop.pool.execute("UPDATE ulak.frequency_caps SET per_day = 1")
    shop.catalogue.forget()
    assert await decided(shop, *await sales(shop, 1)) == [CAPPED]
