"""Recipients over the API: whole, in part, in the clear with a line in the audit log, and found by their address."""

import asyncio
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from shared.core.sealing import KeyRing
from tests.integration.ingest.admin.audit import audited, last_detail, whole_log
from tests.integration.ingest.conftest import Ingest

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PATH = "/internal/v1/recipients"
AYSE: dict[str, Any] = {
    "email": "Ayşe@Örnek.example",
    "phone": "0532 123 45 67",
    "locale": "tr-TR",
    "timeZone": "Europe/Istanbul",
    "attributes": {"tier": "gold", "shoes": {"size": 38, "wide": True}},
}
SECRETS = ("yşe", "rnek", "123 45 67", "1234567", "gold", "shoes")
"""What of her neither the audit log nor a refusal may repeat."""


async def put(ingest: Ingest, user: str, body: Any, match: str | None = None) -> httpx.Response:
    headers = {} if match is None else {"if-match": match}
    return await ingest.client.put(f"{PATH}/{quote(user, safe='')}", json=body, headers=headers)


async def patch(ingest: Ingest, user: str, body: Any, match: str | None = "*") -> httpx.Response:
    headers = {} if match is None else {"if-match": match}
    return await ingest.client.patch(f"{PATH}/{user}", json=body, headers=headers)


async def revealed(ingest: Ingest, user: str) -> dict[str, Any]:
    answer = await ingest.client.get(f"{PATH}/{user}?reveal=true")
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


async def test_a_recipient_is_told_masked(ingest: Ingest) -> None:
    created = await put(ingest, "7", AYSE)

    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    read = await ingest.client.get(f"{PATH}/7")
    assert (read.status_code, read.headers["etag"], read.json()) == (200, '"1"', created.json())
    body = read.json()
    assert (body["userId"], body["email"], body["phone"]) == ("7", "A***@xn--rnek-4qa.example", "+90********67")
    assert {name: body[name] for name in ("locale", "timeZone", "attributes")} == {
        name: AYSE[name] for name in ("locale", "timeZone", "attributes")
    }


async def test_the_clear_is_for_those_who_ask_and_that_is_written_down(ingest: Ingest) -> None:
    await put(ingest, "ayse@shop.example", AYSE)
    body = await revealed(ingest, quote("ayse@shop.example"))
    assert (body["email"], body["phone"]) == ("Ayşe@xn--rnek-4qa.example", "+905321234567")

    key = str(await ingest.pool.fetchval("SELECT user_id FROM ulak.recipients"))
    assert await audited(ingest.pool) == [("created", "recipient", key), ("revealed", "recipient", key)]
    log = await whole_log(ingest.pool)
    assert not [secret for secret in (*SECRETS, "ayse") if secret in log], "a user's id may be an address as well"


async def test_addresses_are_sealed_in_the_database(ingest: Ingest, key_ring: KeyRing) -> None:
    await put(ingest, "7", AYSE)
    row = await ingest.pool.fetchval("SELECT to_jsonb(r)::text FROM ulak.recipients r")
    assert not [secret for secret in ("yşe", "rnek", "1234567") if secret in row]


async def test_a_change_names_the_state_it_was_made_from(ingest: Ingest) -> None:
    await put(ingest, "7", AYSE)

    blind = await put(ingest, "7", {"locale": "en"})
    first = await put(ingest, "7", {"locale": "en"}, '"1"')
    second = await put(ingest, "7", AYSE, '"1"')

    assert (blind.status_code, blind.json()["code"], blind.headers["etag"]) == (428, "precondition_required", '"1"')
    assert (first.status_code, first.headers["etag"]) == (200, '"2"')
    assert (second.status_code, second.json()["code"], second.headers["etag"]) == (412, "precondition_failed", '"2"')
    assert {name: first.json()[name] for name in AYSE} == {
        "email": None,
        "phone": None,
        "locale": "en",
        "timeZone": None,
        "attributes": {},
    }, "a PUT is whole"
    assert await last_detail(ingest.pool) == {"fields": ["email", "phone", "locale", "timeZone", "attributes"]}
    assert (await put(ingest, "8", AYSE, '"1"')).status_code == 412, "nothing is there to be changed"
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 1, "nothing was made on the way"


async def test_of_changes_made_from_one_state_one_gets_through(ingest: Ingest) -> None:
    created = await asyncio.gather(*(put(ingest, "7", {"locale": "tr"}) for _ in range(8)))
    assert sorted(answer.status_code for answer in created) == [201, *[428] * 7]
    changed = await asyncio.gather(*(patch(ingest, "7", {"locale": "en"}, '"1"') for _ in range(8)))
    assert sorted(answer.status_code for answer in changed) == [200, *[412] * 7]
    assert [line[0] for line in await audited(ingest.pool)] == ["created", "updated"]


async def test_what_others_write_is_another_state(ingest: Ingest) -> None:
    """A notification that brings its recipient along changes it under the administrator's hands."""
    await put(ingest, "7", AYSE)
    assert (await ingest.accept(recipient={"locale": "de"})).status_code == 202
    assert (await put(ingest, "7", AYSE, '"1"')).status_code == 412
    assert (await ingest.client.get(f"{PATH}/7")).headers["etag"] == '"2"'


async def test_patching(ingest: Ingest) -> None:
    await put(ingest, "7", AYSE)
    changed = await patch(
        ingest, "7", {"email": None, "attributes": {"tier": None, "shoes": {"wide": None, "colour": "red"}}}, '"1"'
    )

    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    body = await revealed(ingest, "7")
    assert (body["email"], body["phone"], body["locale"]) == (None, "+905321234567", "tr-TR")
    assert body["attributes"] == {"shoes": {"size": 38, "colour": "red"}}
    assert (await patch(ingest, "7", {"attributes": None})).json()["attributes"] == {}
    assert (await patch(ingest, "7", {}, None)).status_code == 428
    assert (await patch(ingest, "8", {})).status_code == 404
    log = await whole_log(ingest.pool)
    assert not [secret for secret in (*SECRETS, "red") if secret in log]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        pytest.param({"email": "nobody"}, "email", id="email"),
        pytest.param({"phone": "0212 293 00 00"}, "phone", id="landline"),
        pytest.param({"locale": "turkish?"}, "locale", id="locale"),
        pytest.param({"timeZone": "GMT+3"}, "timeZone", id="zone"),
        pytest.param({"timeZone": "europe/istanbul"}, "timeZone", id="zone-spelling"),
        pytest.param({"attributes": {"x": "y" * 17_000}}, "attributes", id="large"),
        pytest.param({"attributes": {"x": "\x00"}}, "attributes", id="nul"),
        pytest.param({"attributes": {"x": 2**70}}, "attributes", id="integer"),
        pytest.param({"attributes": []}, "attributes", id="list"),
        pytest.param({"name": "Ayşe"}, "name", id="unknown-field"),
    ],
)
async def test_what_is_wrong_is_named_and_not_repeated(ingest: Ingest, body: Any, path: str) -> None:
    for answer in (await put(ingest, "7", body), await patch(ingest, "7", body)):
        assert answer.status_code == 422
        assert [error["path"] for error in answer.json()["errors"]] == [path]
        for value in body.values():
            assert not isinstance(value, str) or value not in answer.text
    assert await audited(ingest.pool) == []


async def test_both_addresses_are_told_at_once(ingest: Ingest) -> None:
    answer = await put(ingest, "7", {"email": "nobody", "phone": "0212 293 00 00"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_address")
    assert [error["path"] for error in answer.json()["errors"]] == ["email", "phone"]


async def test_attributes_may_not_grow_beyond_their_limit_by_patches(ingest: Ingest) -> None:
    await put(ingest, "7", {"attributes": {"x": "y" * 10_000}})
    grown = await patch(ingest, "7", {"attributes": {"z": "y" * 10_000}})
    assert (grown.status_code, [error["path"] for error in grown.json()["errors"]]) == (422, ["attributes"])


async def test_the_same_address_is_found_in_all_its_ways_of_writing(ingest: Ingest) -> None:
    for user in ("8", "7", "9"):
        await put(ingest, user, AYSE if user != "9" else {"email": "ayse@örnek.example"})

    async def found(**query: str) -> list[str]:
        users: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await ingest.post(f"{PATH}/search?limit=1{f'&cursor={cursor}' if cursor else ''}", query)
            assert page.status_code == 200
            users += [item["userId"] for item in page.json()["items"]]
            cursor = page.json()["cursor"]
        return users

    assert await found(phone="+90 (0)532 123 45 67") == ["8", "7"]
    assert await found(email="Ayşe@XN--RNEK-4QA.example") == ["8", "7"]
    assert await found(email="ayse@örnek.example") == ["9"], "ş is no s"
    assert await found(email="nobody@shop.example") == []
    both = await ingest.post(f"{PATH}/search", {"email": "a@b.example", "phone": "+905321234567"})
    assert both.status_code == 422


async def test_an_i_without_a_dot_is_another_letter(ingest: Ingest) -> None:
    """E3: `mıke` must not be taken for `mike`."""
    await put(ingest, "7", {"email": "mıke@shop.example"})
    answer = await ingest.post(f"{PATH}/search", {"email": "mike@shop.example"})
    assert answer.json()["items"] == []


async def test_there_is_neither_a_list_nor_a_removal(ingest: Ingest) -> None:
    await put(ingest, "7", AYSE)
    assert (await ingest.client.get(PATH)).status_code == 404
    assert (await ingest.client.delete(f"{PATH}/7", headers={"if-match": "*"})).status_code == 405


async def test_an_address_under_an_unknown_key_is_told_of_and_can_be_replaced(ingest: Ingest) -> None:
    await put(ingest, "7", AYSE)
    await ingest.pool.execute("UPDATE ulak.recipients SET email_sealed = overlay(email_sealed PLACING 'k9' FROM 3)")

    assert (await ingest.client.get(f"{PATH}/7")).json()["email"] == "…"
    shut = await ingest.client.get(f"{PATH}/7?reveal=true")
    assert (shut.status_code, shut.json()["code"]) == (409, "address_unreadable")
    assert (await patch(ingest, "7", {"locale": "en"})).status_code == 409
    assert (await patch(ingest, "7", {"email": "ayse@shop.example"})).status_code == 200
    assert [line[0] for line in await audited(ingest.pool)] == ["created", "updated"]
