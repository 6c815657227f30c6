"""Frequency caps over the API."""

import httpx
import pytest

from tests.integration.ingest.admin.audit import audited, last_detail
from tests.integration.ingest.conftest import Ingest

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PATH = "/internal/v1/frequency-caps"


async def put(ingest: Ingest, which: str, per_day: int, match: str | None = None) -> httpx.Response:
    headers = {} if match is None else {"if-match": match}
    return await ingest.client.put(f"{PATH}/{which}", json={"perDay": per_day}, headers=headers)


async def test_a_cap_is_set_changed_and_lifted(ingest: Ingest) -> None:
    (seeded,) = (await ingest.client.get(PATH)).json()["items"]
    assert (seeded["category"], seeded["channel"], seeded["perDay"]) == ("MARKETING", "PUSH", 3)
    assert (await put(ingest, "MARKETING/PUSH", 2)).status_code == 428
    changed = await put(ingest, "MARKETING/PUSH", 2, '"1"')
    assert (changed.status_code, changed.headers["etag"], changed.json()["perDay"]) == (200, '"2"', 2)
    assert (await put(ingest, "MARKETING/PUSH", 5, '"1"')).status_code == 412
    assert (await put(ingest, "MARKETING/PUSH", 2, "*")).headers["etag"] == '"2"', "the same again is no change"
    assert (await put(ingest, "TRANSACTIONAL/SMS", 10)).status_code == 201
    assert await last_detail(ingest.pool) == {"perDay": 10}
    lifted = await ingest.client.delete(f"{PATH}/MARKETING/PUSH", headers={"if-match": '"2"'})
    assert lifted.status_code == 204
    assert (await ingest.client.get(f"{PATH}/MARKETING/PUSH")).status_code == 404
    assert await audited(ingest.pool) == [
        ("updated", "frequency_cap", "MARKETING/PUSH"),
        ("created", "frequency_cap", "TRANSACTIONAL/SMS"),
        ("deleted", "frequency_cap", "MARKETING/PUSH"),
    ]


async def test_what_cannot_be_capped(ingest: Ingest) -> None:
    assert (await put(ingest, "SECURITY/SMS", 1)).status_code == 422
    assert (await put(ingest, "MARKETING/PIGEON", 1)).status_code == 422
    assert (await put(ingest, "MARKETING/SMS", -1)).status_code == 422
    assert await audited(ingest.pool) == []
