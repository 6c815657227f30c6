"""Events against a real database: mapped, deduplicated, decided, in one transaction."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from shared.core.catalogue import EventMapping
from shared.core.deduplication import request_fingerprint
from shared.core.lifecycle import NotificationState
from shared.postgres.application import Application
from shared.postgres.catalogue_write import Push, push_catalogue
from tests.integration.router.stage import ORDER, Router, order_shipped, orders_shipped, received_events

pytestmark = pytest.mark.postgres


async def push(router: Router, wanted: Push) -> None:
    async with router.pool.acquire() as connection, connection.transaction():
        await push_catalogue(connection, wanted)


async def test_an_event_becomes_a_decided_notification(router: Router) -> None:
    assert await router.events(received_events(order_shipped())) == []
    (row,) = await router.pool.fetch("SELECT * FROM ulak.notifications")
    assert (row["state"], row["type"], row["event_id"], row["business_key"], row["mode"]) == (
        NotificationState.DECIDED,
        "ORDER_SHIPPED",
        "order-98213-SHIPPED",
        "98213",
        "live",
    )
    assert [status for _, status, _ in await router.deliveries(row["id"])] == ["PENDING"] * 3
    assert (await router.content(row["id"], "EMAIL"))["subject"] == "98213 yola çıktı"
    assert len(router.hints()) == 3


async def test_its_life_counts_from_the_events_own_time(router: Router) -> None:
    happened = datetime.now(UTC) - timedelta(hours=2)
    await router.events(received_events(order_shipped(time=happened.isoformat())))
    assert await router.pool.fetchval("SELECT expires_at FROM ulak.notifications") == happened + timedelta(hours=12)


async def test_an_old_event_that_is_read_again_is_not_sent_K8(router: Router) -> None:
    happened = datetime.now(UTC) - timedelta(days=2)
    await router.events(received_events(order_shipped(time=happened.isoformat())))
    assert router.hints() == []
    assert {reason for _, reason in router.told()} == {"expired"}


async def test_a_clock_ahead_does_not_lengthen_a_life(router: Router) -> None:
    await router.events(received_events(order_shipped(time=(datetime.now(UTC) + timedelta(days=30)).isoformat())))
    expires_at = await router.pool.fetchval("SELECT expires_at FROM ulak.notifications")
    assert expires_at < datetime.now(UTC) + timedelta(hours=13)


class TestTwice:
    async def test_the_same_event_again_changes_nothing_and_tells_what_is_owed(self, router: Router) -> None:
        await router.events(received_events(order_shipped()))
        again = router.fresh()
        assert await again.events(received_events(order_shipped(), offset=9)) == []
        assert await router.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 1
        assert again.hints() == router.hints()

    async def test_twice_in_one_batch(self, router: Router) -> None:
        await router.events(received_events(order_shipped(), order_shipped()))
        assert await router.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 1
        assert len(router.hints()) == 3

    async def test_by_two_routers_at_once(self, router: Router) -> None:
        batch = received_events(*orders_shipped(20))
        first, second = router.fresh(), router.fresh()
        await asyncio.gather(first.events(batch), second.events(tuple(reversed(batch))))
        assert await router.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 20
        assert await router.pool.fetchval("SELECT count(*) FROM ulak.deliveries") == 60

    async def test_over_http_and_over_kafka_are_one(self, router: Router) -> None:
        """Ingest has accepted the same event id of the same application; its own hint will have it decided."""
        id_ = await router.accept()
        await router.pool.execute(
            "INSERT INTO ulak.notification_dedup SELECT application_id, $2, 'ORDER_SHIPPED', id, $3, now() + '7 days' "
            "FROM ulak.notifications WHERE id = $1",
            id_,
            "order-98213-SHIPPED",
            request_fingerprint(router.ring, recipient="7", type_name="ORDER_SHIPPED", params=ORDER),
        )
        assert await router.events(received_events(order_shipped())) == []
        assert await router.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 1
        assert await router.log(id_) == []
        assert router.producer.records == []

    async def test_with_another_body_is_recorded_on_the_first_once(self, router: Router) -> None:
        await router.events(received_events(order_shipped()))
        id_ = await router.pool.fetchval("SELECT id FROM ulak.notifications")
        changed = received_events(
            order_shipped(data={"customerId": 7, "orderNo": "98213", "carrier": "Kargo B"}), offset=3
        )
        await router.fresh().events(changed)
        await router.fresh().events(changed)
        assert (await router.log(id_))[2:] == [("", "other_body", None)]
        assert (await router.content(id_, "EMAIL"))["text"] == "Kargo: Kargo A"


async def test_one_event_may_notify_buyer_and_seller(router: Router) -> None:
    seller = EventMapping(
        "order-shipped-seller",
        "com.example.shop.OrderShipped",
        "ORDER_SHIPPED",
        "seller",
        "data.sellerId",
        {"orderNo": "data.orderNo", "carrier": "data.carrier"},
    )
    await push(router, Push(mappings=(seller,)))
    event = order_shipped(data={"customerId": 7, "sellerId": 8, "orderNo": "98213", "carrier": "Kargo A"})
    await router.events(received_events(event))
    mappings = await router.pool.fetch("SELECT mapping FROM ulak.notification_dedup ORDER BY 1")
    assert [row["mapping"] for row in mappings] == ["ORDER_SHIPPED", "ORDER_SHIPPED:seller"]
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 2


async def test_a_user_never_seen_is_created_and_has_no_target(router: Router) -> None:
    await router.events(received_events(order_shipped(data={"customerId": "new-1", "orderNo": 1, "carrier": "x"})))
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.recipients WHERE external_id = 'new-1'") == 1
    assert {reason for _, reason in router.told()} == {"no_target"}


async def test_an_event_that_no_mapping_wants_is_ignored(router: Router) -> None:
    assert await router.events(received_events(order_shipped(type="com.example.shop.OrderPacked"))) == []
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 0


class TestPoison:
    """A bad event is rejected with its reason, and the good ones around it go out."""

    async def test_no_recipient(self, router: Router) -> None:
        batch = received_events(order_shipped(data={"orderNo": "1", "carrier": "x"}), order_shipped())
        rejections = await router.events(batch)
        assert [(r.index, r.reason) for r in rejections] == [(0, "no_recipient")]
        assert "data.customerId" in rejections[0].detail
        assert len(router.hints()) == 3

    async def test_unknown_source(self, router: Router) -> None:
        rejections = await router.events(received_events(order_shipped(source="/elsewhere"), order_shipped()))
        assert [(r.index, r.reason) for r in rejections] == [(0, "unknown_source")]
        assert len(router.hints()) == 3

    async def test_parameters_that_the_template_needs_are_missing(self, router: Router) -> None:
        rejections = await router.events(received_events(order_shipped(data={"customerId": 7, "orderNo": "1"})))
        assert [r.reason for r in rejections] == ["render"]
        assert "carrier" in rejections[0].detail

    async def test_a_value_the_database_cannot_hold_spares_the_rest(self, router: Router) -> None:
        """NUL is legal in JSON and not in PostgreSQL's text."""
        bad = order_shipped("bad", data={"customerId": 7, "orderNo": "1\x002", "carrier": "x"})
        rejections = await router.events(received_events(bad, order_shipped()))
        assert [r.index for r in rejections] == [0]
        assert len(router.hints()) == 3


async def test_an_application_may_take_every_source_nobody_names(router: Router) -> None:
    await push(router, Push(applications=(Application("default", ("*",)),)))
    assert await router.events(received_events(order_shipped(source="/elsewhere"))) == []
    assert len(router.hints()) == 3
