"""One click and out (RFC 8058, E8): over real sockets, without login; fixtures: me (the service), pool, key_ring."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from shared.core.address import target_key
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from shared.core.unsubscribe import Refusal, link_token
from tests.integration.me.conftest import Me

ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.fixture
def refusal(key_ring: KeyRing) -> Refusal:
    return Refusal(target_key(key_ring, "EMAIL", "ayse@example.com"), "EMAIL", "NOVEMBER_SALE")


@pytest.fixture
def path(key_ring: KeyRing, refusal: Refusal) -> str:
    return f"/u/{link_token(key_ring, refusal)}"


async def granted(pool: asyncpg.Pool, refusal: Refusal, *, at: datetime | None = None) -> None:
    """A consent as the ledger has it."""
    consent_id, moment = new_id(), at or datetime.now(UTC) - timedelta(days=1)
    await pool.execute(
        "INSERT INTO ulak.consents (id, subject, channel, granted, at, source) VALUES ($1, $2, $3, true, $4, 'HS_WEB')",
        consent_id,
        refusal.subject,
        refusal.channel,
        moment,
    )
    await pool.execute(
        "INSERT INTO ulak.consent_states (subject, channel, purpose, granted, at, consent_id) "
        "VALUES ($1, $2, 'MARKETING', true, $3, $4) ON CONFLICT (subject, channel, purpose) DO UPDATE "
        "SET granted = true, at = excluded.at, consent_id = excluded.consent_id",
        refusal.subject,
        refusal.channel,
        moment,
        consent_id,
    )


async def standing(pool: asyncpg.Pool, refusal: Refusal) -> bool | None:
    found: bool | None = await pool.fetchval(
        "SELECT granted FROM ulak.consent_states WHERE subject = $1 AND channel = $2 AND purpose = 'MARKETING'",
        refusal.subject,
        refusal.channel,
    )
    return found


async def lines(pool: asyncpg.Pool) -> list[tuple[bool, str]]:
    rows = await pool.fetch("SELECT granted, source FROM ulak.consents ORDER BY id")
    return [(row["granted"], row["source"]) for row in rows]


async def test_a_mailbox_providers_click_takes_the_consent_back(me: Me, path: str, refusal: Refusal) -> None:
    await granted(me.pool, refusal)
    answer = await me.client.post(path, data=ONE_CLICK)
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert await standing(me.pool, refusal) is False
    assert await lines(me.pool) == [(True, "HS_WEB"), (False, "ONE_CLICK")]
    assert await me.pool.fetchval("SELECT count(*) FROM ulak.iys_records WHERE state = 'PENDING'") == 1


@pytest.mark.parametrize("kind", ["multipart", "nothing", "other-origin"])
async def test_whatever_form_the_click_has_it_counts(me: Me, path: str, refusal: Refusal, kind: str) -> None:
    await granted(me.pool, refusal)
    if kind == "multipart":
        answer = await me.client.post(path, files={"List-Unsubscribe": (None, "One-Click")})
    elif kind == "nothing":
        answer = await me.client.post(path)
    else:
        answer = await me.client.post(path, data=ONE_CLICK, headers={"origin": "https://mail.example"})
    assert answer.status_code == 200
    assert await standing(me.pool, refusal) is False


async def test_clicking_again_says_the_same_and_adds_nothing(me: Me, path: str, refusal: Refusal) -> None:
    await granted(me.pool, refusal)
    answers = await asyncio.gather(*(me.client.post(path, data=ONE_CLICK) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert await lines(me.pool) == [(True, "HS_WEB"), (False, "ONE_CLICK")]


async def test_a_refusal_without_a_consent_before_is_a_refusal(me: Me, path: str, refusal: Refusal) -> None:
    assert (await me.client.post(path, data=ONE_CLICK)).status_code == 200
    assert await standing(me.pool, refusal) is False


async def test_who_consents_anew_can_leave_by_the_same_link(me: Me, path: str, refusal: Refusal) -> None:
    await me.client.post(path, data=ONE_CLICK)
    await granted(me.pool, refusal, at=datetime.now(UTC))
    await me.client.post(path, data=ONE_CLICK)
    assert await standing(me.pool, refusal) is False
    assert [line[0] for line in await lines(me.pool)] == [False, True, False]


async def test_a_consent_from_the_future_does_not_outlive_the_refusal(me: Me, path: str, refusal: Refusal) -> None:
    await granted(me.pool, refusal, at=datetime.now(UTC) + timedelta(hours=5))
    await me.client.post(path, data=ONE_CLICK)
    assert await standing(me.pool, refusal) is False


async def test_looking_changes_nothing_E8(me: Me, path: str, refusal: Refusal) -> None:
    await granted(me.pool, refusal)
    for method in ("GET", "HEAD", "OPTIONS"):
        await me.client.request(method, path)
    page = await me.client.get(path, headers={"accept-language": "tr-TR,tr;q=0.9"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-language"] == "tr"
    assert 'form method="post"' in page.text
    assert path.removeprefix("/u/") not in page.text
    assert "script-src" not in page.headers["content-security-policy"]
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["referrer-policy"] == "no-referrer"
    assert await standing(me.pool, refusal) is True


async def test_what_is_no_link_of_ours_is_a_page_that_says_so(me: Me, path: str, refusal: Refusal) -> None:
    for wrong in ("/u/nonsense", f"{path}A", "/u/%2e%2e", f"/u/{'A' * 300}"):
        for method in ("GET", "POST"):
            answer = await me.client.request(method, wrong, headers={"accept-language": "en"})
            assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8"), wrong
    assert await lines(me.pool) == []


async def test_a_large_form_is_not_read(me: Me, path: str, refusal: Refusal) -> None:
    answer = await me.client.post(path, content=b"x" * 100_000)
    assert answer.status_code == 413
    assert await standing(me.pool, refusal) is None


async def test_one_link_says_nothing_of_another_channel_or_address(me: Me, path: str, key_ring: KeyRing) -> None:
    others = [
        Refusal(target_key(key_ring, "EMAIL", "deniz@example.com"), "EMAIL", "NOVEMBER_SALE"),
        Refusal(target_key(key_ring, "SMS", "+905321234567"), "SMS", "NOVEMBER_SALE"),
    ]
    for other in others:
        await granted(me.pool, other)
    await me.client.post(path, data=ONE_CLICK)
    assert [await standing(me.pool, other) for other in others] == [True, True]
