"""Notification types over the API: whole definitions, revisions, and who changed what."""

import time
from typing import Any

import httpx
import pytest

from tests.integration.ingest.admin.audit import audited, last_detail
from tests.integration.ingest.conftest import Ingest, add_key, until

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PATH = "/internal/v1/notification-types"
SALE: dict[str, Any] = {"category": "MARKETING", "channels": ["PUSH", "EMAIL"], "ttlSeconds": 28_800}


async def put(ingest: Ingest, name: str, body: Any, match: str | None = None) -> httpx.Response:
    headers = {} if match is None else {"if-match": match}
    return await ingest.client.put(f"{PATH}/{name}", json=body, headers=headers)


async def test_a_type_is_created_with_its_categorys_defaults(ingest: Ingest) -> None:
    created = await put(ingest, "NOVEMBER_SALE", SALE)

    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    expected = SALE | {
        "type": "NOVEMBER_SALE",
        "class": "bulk",
        "promises": {},
        "sender": None,
        "retentionDays": 90,
        "quietHours": {"start": "22:00", "end": "09:00", "spreadSeconds": 900},
        "contentWindowSeconds": 86_400,
        "fallback": [],
        "sms": {"maxSegments": None, "overflow": "warn"},
        "parameters": None,
        "sample": {},
    }
    assert created.json() == expected
    assert (await ingest.client.get(f"{PATH}/NOVEMBER_SALE")).json() == expected
    assert await audited(ingest.pool) == [("created", "notification_type", "NOVEMBER_SALE")]
    actor = await ingest.pool.fetchval("SELECT actor FROM ulak.audit_log")
    assert actor == "api key test of shop"


async def test_a_change_names_the_state_it_was_made_from(ingest: Ingest) -> None:
    await put(ingest, "NOVEMBER_SALE", SALE)
    changed = SALE | {"quietHours": None, "fallback": ["EMAIL"], "sms": {"maxSegments": 1, "overflow": "refuse"}}

    blind = await put(ingest, "NOVEMBER_SALE", changed)
    first = await put(ingest, "NOVEMBER_SALE", changed, '"1"')
    second = await put(ingest, "NOVEMBER_SALE", SALE, '"1"')

    assert (blind.status_code, blind.json()["code"], blind.headers["etag"]) == (428, "precondition_required", '"1"')
    assert (first.status_code, first.headers["etag"]) == (200, '"2"')
    assert first.json()["quietHours"] is None
    assert (second.status_code, second.json()["code"], second.headers["etag"]) == (412, "precondition_failed", '"2"')
    assert await last_detail(ingest.pool) == {
        "fallback": ["EMAIL"],
        "quietHours": None,
        "sms": {"maxSegments": 1, "overflow": "refuse"},
    }


async def test_the_same_again_changes_and_tells_nothing(ingest: Ingest) -> None:
    await put(ingest, "NOVEMBER_SALE", SALE)
    again = await put(ingest, "NOVEMBER_SALE", SALE, "*")
    assert (again.status_code, again.headers["etag"]) == (200, '"1"')
    assert len(await audited(ingest.pool)) == 1


async def test_create_only(ingest: Ingest) -> None:
    async def create() -> httpx.Response:
        return await ingest.client.put(f"{PATH}/NEW", json=SALE, headers={"if-none-match": "*"})

    assert (await create()).status_code == 201
    assert (await create()).status_code == 412
    assert (await put(ingest, "NEWER", SALE, '"1"')).status_code == 412, "nothing is there to be changed"


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        pytest.param({"channels": ["PIGEON"]}, "channels", id="channel"),
        pytest.param({"channels": []}, "channels", id="no-channel"),
        pytest.param({"class": "critical"}, "class", id="raised"),
        pytest.param({"ttlSeconds": 40 * 86_400}, "ttlSeconds", id="ttl"),
        pytest.param({"ttlSeconds": 2**70}, "ttlSeconds", id="beyond-all-time"),
        pytest.param({"quietHours": {"start": "22:00", "end": "22:00"}}, "quietHours", id="no-quiet-hours"),
        pytest.param({"quietHours": {"start": "22", "end": "09:00"}}, "quietHours.start", id="clock"),
        pytest.param(
            {"category": "SECURITY", "quietHours": {"start": "22:00", "end": "09:00"}}, "quietHours", id="otp"
        ),
        pytest.param({"fallback": ["FAX"]}, "fallback", id="fallback"),
        pytest.param({"sms": {"maxSegments": 11}}, "sms.maxSegments", id="segments"),
        pytest.param({"parameters": {"type": "array"}}, "parameters.type", id="schema"),
        pytest.param({"sender": "nobody"}, "sender", id="sender"),
        pytest.param({"colour": "red"}, "colour", id="unknown-field"),
        pytest.param({"ttlSeconds": "60"}, "ttlSeconds", id="text-for-a-number"),
    ],
)
async def test_a_wrong_definition_names_its_field(ingest: Ingest, changed: dict[str, Any], path: str) -> None:
    refused = await put(ingest, "NOVEMBER_SALE", SALE | changed)
    assert refused.status_code == 422
    assert [error["path"] for error in refused.json()["errors"]] == [path]
    assert await audited(ingest.pool) == []


async def test_lists_come_in_pages(ingest: Ingest) -> None:
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await ingest.client.get(f"{PATH}?limit=2{f'&cursor={cursor}' if cursor else ''}")).json()
        names += [item["type"] for item in page["items"]]
        cursor = page["cursor"]
    assert names == ["ORDER_SHIPPED", "OTP", "PASSWORD_CHANGED"]
    assert (await ingest.client.get(f"{PATH}?cursor=abc")).json()["code"] == "invalid_cursor"


async def test_removing(ingest: Ingest) -> None:
    await ingest.pool.execute(
        "INSERT INTO ulak.event_mappings (name, event_type, notification_type, recipient, params)"
        " VALUES ('shipped', 'Shipped', 'ORDER_SHIPPED', 'data.user', '{}')"
    )

    async def remove(name: str, match: str | None) -> httpx.Response:
        return await ingest.client.delete(f"{PATH}/{name}", headers={} if match is None else {"if-match": match})

    assert (await remove("OTP", None)).status_code == 428
    assert (await remove("OTP", '"1"')).status_code == 204
    assert (await remove("OTP", '"1"')).status_code == 404
    mapped = await remove("ORDER_SHIPPED", '"1"')
    assert (mapped.status_code, mapped.json()["code"]) == (409, "in_use")
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.templates WHERE type = 'ORDER_SHIPPED'") == 2
    assert await audited(ingest.pool) == [("deleted", "notification_type", "OTP")]


async def test_only_a_key_that_administers_may(ingest: Ingest) -> None:
    secret = await add_key(ingest.pool, application="other", scopes=("notifications", "otp"))
    headers = {"authorization": f"Bearer {secret}"}
    for answer in (
        await ingest.client.get(PATH, headers=headers),
        await ingest.client.put(f"{PATH}/X", json=SALE, headers=headers),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_what_was_changed_counts_at_once(ingest: Ingest) -> None:
    """The cache of this process is told by Redis, long before its seconds are over."""
    accepted = await ingest.accept()
    assert accepted.status_code == 202
    stored = await ingest.client.get(f"{PATH}/ORDER_SHIPPED")
    changed = {name: value for name, value in stored.json().items() if name != "type"} | {"channels": ["SMS"]}

    assert (await put(ingest, "ORDER_SHIPPED", changed, stored.headers["etag"])).status_code == 200

    async def refused() -> bool:
        answer = await ingest.accept(eventId=f"another-{time.monotonic_ns()}")
        return answer.status_code == 422

    await until(refused)
