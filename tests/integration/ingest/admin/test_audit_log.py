"""The audit log over the API: filtered, paged, and nobody's user id in it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.integration.ingest.conftest import Ingest

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PATH = "/internal/v1/audit-log"
CAP, USER = "/internal/v1/frequency-caps/MARKETING/SMS", "/internal/v1/recipients/7"


async def lines(ingest: Ingest, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        asked = query | {"limit": "1"} | ({} if cursor is None else {"cursor": cursor})
        answer = await ingest.client.get(f"{PATH}?{urlencode(asked)}")
        assert answer.status_code == 200
        found += answer.json()["items"]
        cursor = answer.json()["cursor"]
        if cursor is None:
            return found


async def test_lines_by_what_who_and_when(ingest: Ingest) -> None:
    await ingest.client.put(CAP, json={"perDay": 1})
    await ingest.client.put(CAP, json={"perDay": 2}, headers={"if-match": "*"})
    await ingest.client.put(USER, json={"email": "ayse@shop.example"})
    await ingest.client.put(f"{USER}/preferences", json={"MARKETING": {"PUSH": False}})

    everything = await lines(ingest)
    assert [line["action"] for line in everything] == ["updated", "created", "updated", "created"]
    assert everything[-1]["auditId"].startswith("aud_")
    assert everything[-1] | {"auditId": 0, "at": 0} == {
        "auditId": 0,
        "at": 0,
        "actor": "api key test of shop",
        "action": "created",
        "kind": "frequency_cap",
        "key": "MARKETING/SMS",
        "detail": {"perDay": 1},
    }
    assert await lines(ingest, kind="frequency_cap") == everything[2:]
    assert await lines(ingest, key="MARKETING/SMS") == everything[2:]
    assert await lines(ingest, userId="7") == everything[:2]
    assert await lines(ingest, userId="7", kind="preferences") == everything[:1]
    assert await lines(ingest, actor="api key test of shop") == everything
    assert await lines(ingest, actor="somebody else") == []
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    assert await lines(ingest, **{"from": (now - hour).isoformat(), "to": (now + hour).isoformat()}) == everything
    assert await lines(ingest, **{"from": (now + hour).isoformat()}) == []
    assert await lines(ingest, to="0001-01-01T00:00:00Z") == []


async def test_wrong_questions(ingest: Ingest) -> None:
    assert (await ingest.client.get(f"{PATH}?userId=7")).status_code == 404
    assert (await ingest.client.get(f"{PATH}?userId=7&key=7")).status_code == 422
    assert (await ingest.client.get(f"{PATH}?from=yesterday")).status_code == 422
    assert (await ingest.client.delete(PATH)).status_code == 405
