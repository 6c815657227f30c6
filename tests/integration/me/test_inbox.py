"""The inbox over HTTP: paged, counted, marked; and nobody reaches another's."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from tests.integration.me.conftest import Me
from tests.integration.me.inbox import LIST, notify, public

pytestmark = [pytest.mark.postgres, pytest.mark.redis]


async def titles(me: Me, query: str = "", user: str = "7") -> Sequence[str]:
    return [item["title"] for item in (await me.get(f"{LIST}{query}", user)).json()["items"]]


async def unread(me: Me, user: str = "7") -> int:
    count: int = (await me.get(f"{LIST}/unread-count", user)).json()["unread"]
    return count


async def test_nobody_has_written_to_a_new_user(me: Me) -> None:
    assert (await me.get(LIST)).json() == {"items": [], "cursor": None, "unread": 0}
    assert await unread(me) == 0
    assert (await me.post(f"{LIST}/read-all", None)).json() == {"unread": 0}


async def test_an_entry_as_the_app_sees_it(me: Me, key_ring: KeyRing) -> None:
    id_ = await notify(me.pool, key_ring, "Yolda")

    answer = await me.get(LIST)

    (item,) = answer.json()["items"]
    assert answer.headers["cache-control"] == "no-store"
    assert {name: item[name] for name in ("notificationId", "type", "title", "body", "url", "locale", "state")} == {
        "notificationId": public(id_),
        "type": "ORDER_SHIPPED",
        "title": "Yolda",
        "body": "Kargo A",
        "url": None,
        "locale": "tr",
        "state": "unseen",
    }
    assert answer.json()["unread"] == 1


async def test_pages_come_newest_first_until_there_are_no_more(me: Me, key_ring: KeyRing) -> None:
    for number in range(5):
        await notify(me.pool, key_ring, str(number), ago=timedelta(minutes=5 - number))

    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await me.get(f"{LIST}?limit=2{f'&cursor={cursor}' if cursor else ''}")).json()
        seen += [item["title"] for item in page["items"]]
        cursor = page["cursor"]

    assert seen == ["4", "3", "2", "1", "0"]


async def test_states_and_shelves(me: Me, key_ring: KeyRing) -> None:
    first, second, third = [await notify(me.pool, key_ring, title) for title in ("first", "second", "third")]

    assert (await me.post(f"{LIST}/{public(first)}/seen", None)).json() == {"unread": 3}
    assert (await me.post(f"{LIST}/{public(first)}/read", None)).json() == {"unread": 2}
    assert (await me.post(f"{LIST}/{public(first)}/read", None)).json() == {"unread": 2}
    assert (await me.post(f"{LIST}/{public(second)}/archived", None)).json() == {"unread": 1}

    assert await titles(me) == ["third", "first"]
    assert await titles(me, "?state=unread") == ["third"]
    assert await titles(me, "?state=archived") == ["second"]
    assert (await me.post(f"{LIST}/read-all", None)).json() == {"unread": 0}
    assert await titles(me, "?state=unread") == []
    assert (await me.post(f"{LIST}/{public(third)}/seen", None)).status_code == 200


@pytest.mark.parametrize("word", ["seen", "read", "archived", "received", "opened"])
async def test_nobody_reaches_anothers_entry(me: Me, key_ring: KeyRing, word: str) -> None:
    theirs = await notify(me.pool, key_ring, "theirs", user="8")
    await notify(me.pool, key_ring, "mine")

    for id_ in (theirs, new_id()):
        answer = await me.post(f"{LIST}/{public(id_)}/{word}", None)
        assert (answer.status_code, answer.json()["code"]) == (404, "notification_not_found")
    assert await unread(me, "8") == 1
    assert await titles(me) == ["mine"]
    assert await me.pool.fetchval("SELECT count(*) FROM ulak.app_reports") == 0


async def test_reports_are_kept_once_and_opening_is_reading(me: Me, key_ring: KeyRing) -> None:
    id_ = await notify(me.pool, key_ring, "Yolda")
    for word in ("received", "received", "opened", "opened"):
        assert (await me.post(f"{LIST}/{public(id_)}/{word}", None)).status_code == 204

    rows = await me.pool.fetch("SELECT notification_id, kind FROM ulak.app_reports ORDER BY kind")
    assert [tuple(row) for row in rows] == [(id_, "opened"), (id_, "received")]
    assert await unread(me) == 0


@pytest.mark.parametrize(
    ("query", "path"),
    [
        pytest.param("?cursor=made-up", "cursor", id="cursor"),
        pytest.param("?cursor=%C4%B1", "cursor", id="cursor-that-is-not-ascii"),
        pytest.param("?state=gone", "state", id="state"),
        pytest.param("?limit=0", "limit", id="limit"),
        pytest.param("?limit=101", "limit", id="limit-too-large"),
    ],
)
async def test_a_wrong_query_names_its_field(me: Me, key_ring: KeyRing, query: str, path: str) -> None:
    await notify(me.pool, key_ring, "Yolda")
    answer = await me.get(f"{LIST}{query}")
    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == [path]


async def test_an_id_that_is_none(me: Me) -> None:
    answer = await me.post(f"{LIST}/ntf_x/read", None)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_id")


async def test_an_entry_that_no_key_opens_keeps_its_place(me: Me, key_ring: KeyRing) -> None:
    await notify(me.pool, key_ring, "Yolda")
    await me.pool.execute("UPDATE ulak.inbox SET content_sealed = content_sealed || '\\x00'")
    assert await titles(me) == [""]
