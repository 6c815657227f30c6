"""The link out of marketing, filled in where it is rendered: one's own, and leading to the consent it is about (E8)."""

from typing import Any

import pytest

from shared.core.address import target_key
from shared.core.consent import user_subject
from shared.core.identifier import new_id
from shared.core.unsubscribe import PARAMETER, Refusal, parse_link_token
from shared.postgres.catalogue_write import Push, push_catalogue
from shared.postgres.template import NewTemplate
from tests.integration.router.stage import SALE, Router, hints_for

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

URL = "https://me.shop.example"
LINK = f"{{{{ {PARAMETER} }}}}"
HTML = f'<p><a href="{LINK}">Çık</a></p>'


@pytest.fixture
async def shop(router: Router) -> Router:
    """A sale by mail and push at any hour, to which the user has agreed, whose words hold the link."""
    templates = (
        NewTemplate(SALE.name, "EMAIL", "tr", {"subject": "İndirim", "text": LINK, "html": HTML}, frozenset()),
        NewTemplate(SALE.name, "PUSH", "tr", {"title": "İndirim", "body": "Kış", "url": LINK}, frozenset()),
    )
    async with router.pool.acquire() as connection, connection.transaction():
        await push_catalogue(connection, Push(templates=templates))
    await router.pool.execute("UPDATE ulak.notification_types SET quiet_hours = '{}'")
    user_id = await router.pool.fetchval("SELECT user_id FROM ulak.recipients WHERE external_id = '7'")
    subjects = {
        "EMAIL": target_key(router.ring, "EMAIL", "ayse@example.com"),
        "PUSH": user_subject(router.ring, user_id),
    }
    for channel, subject in subjects.items():
        await router.pool.execute(
            "INSERT INTO ulak.consent_states (subject, channel, purpose, granted, at, consent_id) "
            "VALUES ($1, $2, 'MARKETING', true, now(), $3)",
            *(subject, channel, new_id()),
        )
    return Router(router.pool, router.ring, router.redis, router.key_prefix, public_url=URL)


async def decided(shop: Router, channel: str, **params: Any) -> Any:
    id_ = await shop.accept(params=params, type=SALE.name, message_class=2, channels=[channel])
    await shop.requests(hints_for(id_))
    assert {row[1] for row in await shop.deliveries(id_)} == {"PENDING"}
    return await shop.content(id_, channel)


def refusal(shop: Router, url: str) -> Refusal:
    assert url.startswith(f"{URL}/u/")
    return parse_link_token(shop.ring, url.removeprefix(f"{URL}/u/"))


async def test_a_mails_link_is_about_its_address(shop: Router) -> None:
    content = await decided(shop, "EMAIL")
    subject = target_key(shop.ring, "EMAIL", "ayse@example.com")
    assert refusal(shop, content["text"].strip()) == Refusal(subject, "EMAIL", SALE.name)
    assert f'href="{content["text"].strip()}"' in content["html"]


async def test_a_pushs_link_is_about_its_user(shop: Router) -> None:
    content = await decided(shop, "PUSH")
    user_id = await shop.pool.fetchval("SELECT user_id FROM ulak.recipients WHERE external_id = '7'")
    assert refusal(shop, content["url"]) == Refusal(user_subject(shop.ring, user_id), "PUSH", SALE.name)


async def test_a_caller_cannot_put_another_link_in_its_place(shop: Router) -> None:
    content = await decided(shop, "EMAIL", unsubscribeUrl="https://evil.example")
    assert "evil" not in content["text"] + content["html"]


async def test_without_a_public_address_words_that_need_the_link_are_not_sent(shop: Router) -> None:
    bare = Router(shop.pool, shop.ring, shop.redis, shop.key_prefix)
    id_ = await bare.accept(params={}, type=SALE.name, message_class=2, channels=["EMAIL"])
    await bare.requests(hints_for(id_))
    assert await bare.deliveries(id_) == [("EMAIL", "FAILED", "render")]
