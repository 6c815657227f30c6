"""The same content once: whoever is decided first goes, by whatever way and router it came."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.core.identifier import NOTIFICATION, public_id
from tests.integration.router.stage import ORDER, Router, hints_for, order_shipped, received_events

pytestmark = pytest.mark.postgres

SENT = [("EMAIL", "PENDING", None), ("PUSH", "PENDING", None), ("PUSH", "PENDING", None)]
REFUSED = [("EMAIL", "SKIPPED", "duplicate_content"), ("PUSH", "SKIPPED", "duplicate_content")]


async def details(router: Router, id_: UUID) -> set[str]:
    rows = await router.pool.fetch(
        "SELECT detail FROM ulak.delivery_log WHERE notification_id = $1 AND reason = 'duplicate_content'", id_
    )
    return {row["detail"] for row in rows}


async def claim(router: Router) -> tuple[UUID, datetime]:
    row = await router.pool.fetchrow("SELECT notification_id, until FROM ulak.content_window")
    assert row is not None
    return row["notification_id"], row["until"]


async def test_the_second_of_one_business_key_is_skipped_and_why_names_the_first(router: Router) -> None:
    first, second = await router.accept(business_key="98213"), await router.accept(business_key="98213")
    await router.requests(hints_for(first))
    await router.requests(hints_for(second))
    assert await router.deliveries(first) == SENT
    assert await router.deliveries(second) == REFUSED
    assert await details(router, second) == {public_id(NOTIFICATION, first)}
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.contents WHERE notification_id = $1", second) == 0
    assert router.told() == [("ulak.delivery.skipped.v1", "duplicate_content")] * 2


async def test_within_one_batch_the_lower_id_goes(router: Router) -> None:
    ids = [await router.accept(business_key="98213") for _ in range(5)]
    await router.requests(hints_for(*reversed(ids)))
    assert [await router.deliveries(id_) for id_ in ids] == [SENT, *[REFUSED] * 4]
    assert (await claim(router))[0] == ids[0]


async def test_of_two_routers_at_once_one_goes(router: Router) -> None:
    """Each has decided before the other has committed; the transactions meet at the claim."""
    keys = [f"order-{number}" for number in range(40)]
    ones = [await router.accept(business_key=key) for key in keys]
    others = [await router.accept(business_key=key) for key in keys]
    here, there = router.fresh(), router.fresh()
    await asyncio.gather(here.requests(hints_for(*ones)), there.requests(hints_for(*others)))
    for one, other in zip(ones, others, strict=True):
        found = [await router.deliveries(one), await router.deliveries(other)]
        assert found in ([SENT, REFUSED], [REFUSED, SENT])
    assert len([*here.hints(), *there.hints()]) == 3 * len(keys)


async def test_an_event_and_a_request_share_the_window(router: Router) -> None:
    await router.events(received_events(order_shipped()))  # its mapping takes orderNo as the business key
    second = await router.accept(business_key=ORDER["orderNo"])
    await router.requests(hints_for(second))
    assert await router.deliveries(second) == REFUSED

    await router.events(received_events(order_shipped("the-same-order-again")))
    (third,) = await router.pool.fetch("SELECT id FROM ulak.notifications WHERE event_id = 'the-same-order-again'")
    assert await router.deliveries(third["id"]) == REFUSED


async def test_another_user_type_or_key_is_other_content(router: Router) -> None:
    first = await router.accept(business_key="98213")
    await router.requests(hints_for(first))
    other_user = await router.accept("8", business_key="98213")
    other_key = await router.accept(business_key="98214")
    without_key = await router.accept()
    again_without = await router.accept()
    await router.requests(hints_for(other_user, other_key, without_key, again_without))
    assert ("EMAIL", "PENDING", None) in await router.deliveries(other_user)
    for id_ in (other_key, without_key, again_without):
        assert await router.deliveries(id_) == SENT


async def test_after_the_window_it_goes_again(router: Router) -> None:
    first, second = await router.accept(business_key="98213"), await router.accept(business_key="98213")
    await router.requests(hints_for(first))
    assert timedelta(hours=23, minutes=59) < (await claim(router))[1] - datetime.now(UTC) <= timedelta(hours=24)
    await router.pool.execute("UPDATE ulak.content_window SET until = now() - interval '1 second'")
    await router.requests(hints_for(second))
    assert await router.deliveries(second) == SENT
    assert (await claim(router))[0] == second


async def test_a_type_has_its_own_window_or_none(router: Router) -> None:
    await router.pool.execute("UPDATE ulak.notification_types SET content_window_seconds = 600")
    await router.requests(hints_for(await router.accept(business_key="a")))
    assert timedelta(minutes=9) < (await claim(router))[1] - datetime.now(UTC) <= timedelta(minutes=10)
    await router.pool.execute("UPDATE ulak.notification_types SET content_window_seconds = 0")
    router.catalogue.forget()
    for _ in range(2):
        id_ = await router.accept(business_key="b")
        await router.requests(hints_for(id_))
        assert await router.deliveries(id_) == SENT


@pytest.mark.parametrize("why", ["expired", "deferred", "cannot be rendered", "switched off"])
async def test_a_first_that_sends_nothing_claims_nothing(router: Router, why: str) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    changes = {"expired": {"expires_at": datetime.now(UTC)}, "deferred": {"send_at": soon}}.get(why, {})
    user = "8" if why == "switched off" else "7"
    channels = {"channels": ["PUSH"]} if why == "switched off" else {}
    params = {} if why == "cannot be rendered" else ORDER
    if why == "deferred":
        changes["expires_at"] = soon + timedelta(hours=1)
    await router.requests(hints_for(await router.accept(user, params, business_key="98213", **changes, **channels)))
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.content_window") == 0
    second = await router.accept(business_key="98213")
    await router.requests(hints_for(second))
    assert await router.deliveries(second) == SENT


async def test_a_test_key_neither_claims_nor_is_refused(router: Router) -> None:
    await router.requests(hints_for(await router.accept(business_key="98213", mode="test")))
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.content_window") == 0
    await router.requests(hints_for(await router.accept(business_key="98213")))
    trial = await router.accept(business_key="98213", mode="test")
    await router.requests(hints_for(trial))
    assert await router.deliveries(trial) == SENT


async def test_a_claim_survives_the_redelivery_and_dies_with_a_rollback(router: Router) -> None:
    first = await router.accept(business_key="98213")
    decided = await router.decider.decide(await router.store.load([first]), router.now())
    await router.pool.execute(f"ALTER TABLE ulak.contents ADD CONSTRAINT no CHECK (notification_id <> '{first}')")
    with pytest.raises(Exception, match="partition"):
        await router.store.save(decided.plans, router.now())
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.content_window") == 0
    await router.pool.execute("ALTER TABLE ulak.contents DROP CONSTRAINT no")
    await router.requests(hints_for(first))
    stands = await claim(router)
    await router.fresh().requests(hints_for(first))
    assert await claim(router) == stands
    assert await router.deliveries(first) == SENT
