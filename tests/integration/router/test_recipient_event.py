"""Recipients told by events, against a real database; fixture: router (handlers, the shop's catalogue, two users)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.router.application import ApplicationCache
from services.router.cloudevent import CloudEvent
from services.router.recipient_event import UPSERTED, RecipientEvents
from shared.core.address import target_key
from shared.core.sealing import Purpose, open_sealed
from shared.kafka.record import Received, Rejection
from shared.runtime.keyring import FixedRingSource
from tests.integration.router.stage import Router, order_shipped, received_events

pytestmark = pytest.mark.postgres

NOW = datetime.now(UTC)


async def handled(router: Router, *events: dict[str, Any]) -> Sequence[Rejection]:
    """As one poll hands them over."""
    rings, applications = FixedRingSource(router.ring), ApplicationCache(router.store)
    handler = RecipientEvents(router.events, router.pool, applications, rings, router.now)
    batch: Sequence[Received[CloudEvent]] = received_events(*events)
    return await handler(batch)


def upserted(data: dict[str, Any], age: timedelta = timedelta(), **changes: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"{data.get('userId')}-{age}",
        "source": "/shop/orders",
        "type": UPSERTED,
        "time": (NOW - age).isoformat(),
        "data": data,
    } | changes


async def row(router: Router, user: str) -> Any:
    return await router.pool.fetchrow("SELECT * FROM ulak.recipients WHERE external_id = $1", user)


async def test_a_recipient_is_there_before_the_order_of_the_same_poll(router: Router) -> None:
    told = {
        "userId": 99,
        "email": "Zehra@example.com",
        "phone": "0532 123 45 67",
        "locale": "en",
        "timeZone": "Europe/Berlin",
        "attributes": {"vip": True},
    }
    order = order_shipped(data={"customerId": 99, "orderNo": "1", "carrier": "Kargo A"})
    assert await handled(router, order, upserted(told)) == []
    stored = await row(router, "99")
    assert stored["email_key"] == target_key(router.ring, "EMAIL", "zehra@example.com")
    assert open_sealed(router.ring, Purpose.ADDRESS, stored["phone_key"], stored["phone_sealed"]) == b"+905321234567"
    assert (stored["locale"], stored["time_zone"], stored["attributes"]) == ("en", "Europe/Berlin", {"vip": True})
    (notification,) = await router.pool.fetch("SELECT id, user_id FROM ulak.notifications")
    assert notification["user_id"] == stored["user_id"]
    assert ("EMAIL", "PENDING", None) in await router.deliveries(notification["id"])


async def test_the_latest_event_wins_whatever_order_they_come_in(router: Router) -> None:
    minute = timedelta(minutes=1)
    new, old = upserted({"userId": "n", "locale": "en"}), upserted({"userId": "n", "locale": "de"}, minute)
    await handled(router, new, old)
    assert (await row(router, "n"))["locale"] == "en"
    before = await row(router, "n")
    await handled(router, old)
    assert await row(router, "n") == before, "read again, it changes nothing"
    await handled(router, upserted({"userId": "n", "timeZone": "Europe/Istanbul"}, -minute))
    after = await row(router, "n")
    assert (after["locale"], after["time_zone"]) == ("en", "Europe/Istanbul"), "what is not said stays"
    assert after["updated_at"] <= datetime.now(UTC), "a clock that is ahead shuts nobody out"


async def test_a_change_made_here_since_stays(router: Router) -> None:
    await router.pool.execute("UPDATE ulak.recipients SET locale = 'fr', updated_at = now() WHERE external_id = '7'")
    await handled(router, upserted({"userId": 7, "locale": "en"}, timedelta(seconds=30)))
    assert (await row(router, "7"))["locale"] == "fr"


async def test_first_sight_shuts_no_event_out(router: Router) -> None:
    """A notification has made the user a moment ago; the event that tells of them is older and comes later."""
    await handled(router, order_shipped(data={"customerId": "early", "orderNo": "1", "carrier": "A"}))
    await handled(router, upserted({"userId": "early", "email": "early@example.com"}, timedelta(minutes=5)))
    assert (await row(router, "early"))["email_key"] is not None


@pytest.mark.parametrize(
    ("event", "reason", "words"),
    [
        pytest.param(upserted({"userId": "n"}, source="/elsewhere"), "unknown_source", "source", id="source"),
        pytest.param(upserted({"email": "a@example.com"}), "invalid_recipient", "data.userId", id="nobody"),
        pytest.param(upserted({"userId": "n", "email": "secret"}), "invalid_recipient", "data.email", id="address"),
        pytest.param(upserted({"userId": "n", "secret": 1}), "invalid_recipient", "data.secret", id="unknown-field"),
        pytest.param(upserted({"userId": "n", "timeZone": "+03:00"}), "invalid_recipient", "data.timeZone", id="zone"),
        pytest.param(upserted({}) | {"data": None}, "invalid_recipient", "data", id="no-data"),
    ],
)
async def test_a_bad_one_becomes_a_dead_letter_and_takes_no_other_along(
    router: Router, event: dict[str, Any], reason: str, words: str
) -> None:
    rejections = await handled(router, order_shipped(), event, upserted({"userId": "good", "locale": "tr"}))
    assert [(rejection.index, rejection.reason) for rejection in rejections] == [(1, reason)]
    assert words in rejections[0].detail
    assert (await row(router, "good"))["locale"] == "tr"
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 1


async def test_what_the_database_refuses_and_what_the_next_handler_refuses(router: Router) -> None:
    await router.pool.execute("ALTER TABLE ulak.recipients ADD CHECK (external_id <> 'refused')")
    rejections = await handled(
        router,
        upserted({"userId": "refused"}),
        upserted({"userId": "good"}),
        order_shipped("no-user", data={"orderNo": "1"}),
    )
    assert [(rejection.index, rejection.reason) for rejection in rejections] == [
        (0, "unstorable"),
        (2, "no_recipient"),
    ]
    assert await row(router, "good") is not None
