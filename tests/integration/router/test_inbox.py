"""INBOX is a channel like the others, but reached by being written: born DELIVERED in the decision's transaction."""

import asyncio
from typing import Any
from uuid import UUID

import orjson
import pytest

from shared.core.inbox import Shelf
from shared.core.sealing import Purpose, open_sealed
from shared.postgres.inbox import PostgresInbox
from shared.redis_store.inbox_signal import InboxSignals, receiving
from tests.integration.redis_store.conftest import until
from tests.integration.router.stage import Router, hints_for

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PARTS = {"title": "Siparişiniz yolda", "body": "{{ orderNo }}, {{ carrier }}", "url": "/orders/{{ orderNo }}"}


@pytest.fixture(autouse=True)
async def inbox_template(router: Router) -> None:
    await router.pool.execute(
        "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active)"
        " VALUES ('ORDER_SHIPPED', 'INBOX', 'tr', 1, $1, '{orderNo,carrier}', 'x', true)",
        PARTS,
    )


async def user_of(router: Router, id_: UUID) -> int:
    user: int = await router.pool.fetchval("SELECT user_id FROM ulak.notifications WHERE id = $1", id_)
    return user


async def accept(router: Router, **columns: Any) -> UUID:
    return await router.accept(**{"channels": ["INBOX", "EMAIL"], **columns})


async def test_it_is_there_with_the_decision_and_told_as_delivered(router: Router) -> None:
    id_ = await accept(router)
    await router.requests(hints_for(id_))

    assert await router.deliveries(id_) == [("EMAIL", "PENDING", None), ("INBOX", "DELIVERED", None)]
    assert router.hints() == [("email-tx", str(id_), "EMAIL")], "nobody sends an inbox entry"
    assert [event for event, _ in router.told()] == ["ulak.delivery.delivered.v1"]
    inbox = PostgresInbox(router.pool)
    (entry,) = await inbox.page(await user_of(router, id_), Shelf.INBOX)
    assert orjson.loads(open_sealed(router.ring, Purpose.INBOX, id_.bytes, entry.content_sealed)) == {
        "title": "Siparişiniz yolda",
        "body": "98213, Kargo A",
        "url": "/orders/98213",
    }
    assert await router.content(id_, "INBOX") == {
        "title": "Siparişiniz yolda",
        "body": "98213, Kargo A",
        "url": "/orders/98213",
    }, "what did the user see?"


async def test_a_redelivery_adds_nothing_and_tells_it_again(router: Router) -> None:
    id_ = await accept(router)
    await router.requests(hints_for(id_))
    again = router.fresh()
    await again.requests(hints_for(id_))

    assert await PostgresInbox(router.pool).unread(await user_of(router, id_)) == 1
    assert again.told() == router.told()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param({"mode": "test"}, ("DELIVERED", None), id="a-test-key-reaches-nobody"),
        pytest.param({"mode": "team"}, ("SKIPPED", "not_on_allow_list"), id="a-team-key-reaches-its-list-only"),
    ],
)
async def test_only_live_notifications_are_written(
    router: Router, columns: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    id_ = await accept(router, **columns)
    await router.requests(hints_for(id_))

    assert ("INBOX", *expected) in await router.deliveries(id_)
    assert await PostgresInbox(router.pool).unread(await user_of(router, id_)) == 0


async def test_the_users_word_counts(router: Router) -> None:
    id_ = await accept(router)
    await router.pool.execute(
        "INSERT INTO ulak.user_preferences (user_id, category, channel, enabled)"
        " VALUES ($1, 'TRANSACTIONAL', 'INBOX', false)",
        await user_of(router, id_),
    )
    await router.requests(hints_for(id_))

    assert ("INBOX", "SKIPPED", "preference") in await router.deliveries(id_)
    assert await PostgresInbox(router.pool).unread(await user_of(router, id_)) == 0


async def test_apps_that_listen_hear_of_it_after_the_commit(router: Router) -> None:
    id_ = await accept(router)
    owner = await user_of(router, id_)
    signals = InboxSignals(router.redis, router.key_prefix, retry_sec=0.05)
    async with receiving(signals), signals.listen(owner) as news:
        await until(lambda: _listening(router, owner), "the app listens")
        news.clear()
        await router.requests(hints_for(id_))
        async with asyncio.timeout(60):
            await news.wait()
        assert await PostgresInbox(router.pool).unread(owner) == 1


async def _listening(router: Router, user_id: int) -> bool:
    ((_, count),) = await router.redis.pubsub_numsub(f"{router.key_prefix}inbox:{user_id}")
    return int(count) == 1
