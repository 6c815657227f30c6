"""Suppressions over the API: added, prolonged and never shortened, listed masked, removed for a reason on record."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from shared.core.address import target_key
from shared.core.sealing import KeyRing
from shared.postgres.query import load_queries
from tests.integration.ingest.admin.audit import audited, last_detail, whole_log
from tests.integration.ingest.conftest import Ingest

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PATH = "/internal/v1/suppressions"
EMAIL: dict[str, Any] = {"channel": "EMAIL", "address": "ayse@shop.example"}
SMS: dict[str, Any] = {"channel": "SMS", "address": "0532 123 45 67", "scope": "MARKETING"}


async def add(ingest: Ingest, body: Any) -> httpx.Response:
    return await ingest.post(PATH, body)


async def remove(ingest: Ingest, body: Any, **more: Any) -> httpx.Response:
    return await ingest.post(f"{PATH}/remove", body | {"scope": "ALL", "reason": "mailbox is back"} | more)


async def ends(ingest: Ingest) -> datetime | None:
    moment: datetime | None = await ingest.pool.fetchval("SELECT expires_at FROM ulak.suppressions")
    return moment


async def test_an_address_is_suppressed_once_in_all_its_ways_of_writing(ingest: Ingest, key_ring: KeyRing) -> None:
    first = await add(ingest, SMS | {"note": "asked by phone"})
    again = await add(ingest, SMS | {"address": "+90 (532) 123-45-67"})

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    body = first.json()
    assert body["suppressionId"].startswith("sup_")
    assert {name: body[name] for name in ("channel", "address", "scope", "source", "note", "expiresAt")} == {
        "channel": "SMS",
        "address": "+90********67",
        "scope": "MARKETING",
        "source": "manual",
        "note": "asked by phone",
        "expiresAt": None,
    }
    assert body["createdBy"] == "api key test of shop"
    key = await ingest.pool.fetchval("SELECT address_key FROM ulak.suppressions")
    assert key == target_key(key_ring, "SMS", "+905321234567")
    assert await audited(ingest.pool) == [("created", "suppression", body["suppressionId"])]
    assert "5321234567" not in await whole_log(ingest.pool)


async def test_it_is_prolonged_and_never_shortened(ingest: Ingest) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    later = soon + timedelta(days=1)

    async def until(moment: datetime | None) -> tuple[int, datetime | None]:
        answer = await add(ingest, EMAIL | ({} if moment is None else {"expiresAt": moment.isoformat()}))
        return answer.status_code, await ends(ingest)

    assert await until(soon) == (201, soon)
    assert await until(later) == (200, later)
    assert await until(soon) == (200, later)
    assert await until(None) == (200, None)
    assert await until(later) == (200, None)
    assert [line[0] for line in await audited(ingest.pool)] == ["created", "prolonged", "prolonged"]


async def test_a_bounce_outlasts_a_pause_that_was_there_before(ingest: Ingest, key_ring: KeyRing) -> None:
    """What workers, callbacks and the e-mail relay add by themselves."""
    key = target_key(key_ring, "EMAIL", "ayse@shop.example")
    for file, name, values in (
        ("delivery", "suppress_targets", ("EMAIL", [key])),
        ("email_messages", "suppress_addresses", ([key],)),
        ("receipts", "suppress", (["EMAIL"], [key], ["complaint"])),
    ):
        await ingest.pool.execute("DELETE FROM ulak.suppressions")
        await add(ingest, EMAIL | {"expiresAt": (datetime.now(UTC) + timedelta(days=1)).isoformat()})
        await ingest.pool.execute(load_queries(file)[name], *values)
        assert await ends(ingest) is None
        assert await ingest.pool.fetchval("SELECT source FROM ulak.suppressions") != "manual"


async def test_lists_are_masked_and_come_in_pages(ingest: Ingest) -> None:
    await add(ingest, EMAIL)
    await add(ingest, SMS)
    await ingest.pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason, source)"
        " VALUES ('EMAIL', '\\x01', 'target_gone', 'bounce')"
    )

    async def listed(query: str = "") -> list[str | None]:
        addresses: list[str | None] = []
        cursor: str | None = ""
        while cursor is not None:
            page = (await ingest.client.get(f"{PATH}?limit=1{query}{f'&cursor={cursor}' if cursor else ''}")).json()
            addresses += [item["address"] for item in page["items"]]
            cursor = page["cursor"]
        return addresses

    assert await listed() == [None, "+90********67", "a***@shop.example"], "the newest first"
    assert await listed("&channel=SMS") == ["+90********67"]


async def test_removing_says_why(ingest: Ingest) -> None:
    created = (await add(ingest, EMAIL)).json()["suppressionId"]

    assert (await remove(ingest, EMAIL, scope="MARKETING")).status_code == 404
    assert (await remove(ingest, EMAIL, address="AYSE@Shop.Example")).status_code == 204
    assert (await remove(ingest, EMAIL)).status_code == 404
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.suppressions") == 0
    assert (await audited(ingest.pool))[-1] == ("removed", "suppression", created)
    assert await last_detail(ingest.pool) == {"channel": "EMAIL", "scope": "ALL", "reason": "mailbox is back"}


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        pytest.param({"reason": "ayse@shop.example asked"}, "reason", id="address-in-reason"),
        pytest.param({"reason": "+90 532 123 45 67 asked"}, "reason", id="number-in-reason"),
        pytest.param({"reason": ""}, "reason", id="no-reason"),
        pytest.param({"address": "nobody"}, "address", id="address"),
        pytest.param({"channel": "PUSH"}, "channel", id="channel"),
        pytest.param({"scope": "SOME"}, "scope", id="scope"),
    ],
)
async def test_a_wrong_removal_names_its_field(ingest: Ingest, changed: dict[str, Any], path: str) -> None:
    await add(ingest, EMAIL)
    refused = await remove(ingest, EMAIL, **changed)
    assert refused.status_code == 422
    assert [error["path"] for error in refused.json()["errors"]] == [path]
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.suppressions") == 1


async def test_an_end_lies_ahead(ingest: Ingest) -> None:
    refused = await add(ingest, EMAIL | {"expiresAt": "2026-01-01T00:00:00Z"})
    assert (refused.status_code, [error["path"] for error in refused.json()["errors"]]) == (422, ["expiresAt"])
