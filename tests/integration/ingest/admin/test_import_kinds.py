"""What lines of each kind leave in the database; recipients' are in test_imports.py. Fixtures: ingest, key_ring."""

from typing import Any

import pytest

from shared.core.address import target_key
from shared.core.sealing import KeyRing
from tests.integration.ingest.admin.stream import bad, ndjson, send
from tests.integration.ingest.conftest import Ingest

pytestmark = [pytest.mark.postgres, pytest.mark.redis]


async def test_devices(ingest: Ingest, key_ring: KeyRing) -> None:
    lines = [
        {"userId": "ayse", "token": "AB" * 32, "platform": "IOS"},
        {"userId": "ayse", "token": "a" * 40, "platform": "ANDROID", "appId": "shop"},
        {"userId": "mehmet", "token": "ab" * 32, "platform": "IOS", "environment": "sandbox"},
        {"userId": "deniz", "token": "short", "platform": "ANDROID"},
        {"token": "ab" * 32, "platform": "IOS"},
    ]
    _, run = await send(ingest, "devices", ndjson(lines))
    assert (run["accepted"], run["rejected"]) == (3, 2)
    assert await bad(ingest, run["importId"]) == [(4, "invalid", "token"), (5, "invalid", "userId")]
    rows = await ingest.pool.fetch(
        "SELECT external_id, token_key, app_id, environment FROM ulak.devices JOIN ulak.recipients USING (user_id)"
        " ORDER BY external_id"
    )
    assert [tuple(row) for row in rows] == [
        ("ayse", target_key(key_ring, "PUSH", "a" * 40), "shop", "production"),
        ("mehmet", target_key(key_ring, "PUSH", "ab" * 32), "", "sandbox"),
    ]
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 2, "deniz has no device"


async def test_a_device_that_is_imported_again_says_what_its_app_said(ingest: Ingest) -> None:
    """Its name and its refusal stay with its user, and do not go on to the next one."""
    line = {"userId": "ayse", "token": "ab" * 32, "platform": "IOS"}
    registered = {"platform": "IOS", "token": "ab" * 32, "deviceId": "ayse-phone", "permission": "denied"}
    assert (await ingest.post("/internal/v1/recipients/ayse/devices", registered)).status_code == 201

    async def imported(user: str) -> tuple[Any, ...]:
        _, run = await send(ingest, "devices", ndjson([line | {"userId": user}]))
        assert run["accepted"] == 1
        return tuple((await ingest.pool.fetch("SELECT device_id, permission, active FROM ulak.devices"))[0])

    assert await imported("ayse") == ("ayse-phone", "denied", False)
    assert await imported("mehmet") == (None, "granted", True)


async def test_preferences(ingest: Ingest) -> None:
    lines = [
        {"userId": "ayse", "preferences": {"TRANSACTIONAL": {"PUSH": False}}},
        {"userId": "ayse", "preferences": {"TRANSACTIONAL": {"PUSH": True, "EMAIL": False}}},
        {"userId": "ayse", "preferences": {"SECURITY": {"PUSH": False}}},
        {"userId": "ayse", "preferences": {"MARKETING": {"PIGEON": False}}},
        {"userId": "ayse"},
    ]
    _, run = await send(ingest, "preferences", ndjson(lines))
    assert (run["accepted"], run["rejected"]) == (2, 3)
    assert [path for _, _, path in await bad(ingest, run["importId"])] == [
        "preferences.SECURITY.PUSH",
        "preferences.MARKETING.PIGEON",
        "preferences",
    ]
    words = await ingest.pool.fetch("SELECT channel, enabled FROM ulak.user_preferences ORDER BY 1")
    assert [tuple(row) for row in words] == [("EMAIL", False), ("PUSH", True)]


async def test_consents(ingest: Ingest) -> None:
    yes = {
        "address": "ayse@example.com",
        "channel": "EMAIL",
        "granted": True,
        "at": "2026-11-01T12:00:00+03:00",
        "source": "HS_WEB",
        "reference": "1",
    }
    lines = [
        yes,
        yes,
        yes | {"granted": False, "at": "2026-11-02T12:00:00+03:00", "reference": "2"},
        {"userId": "nobody", "channel": "SMS", "granted": True, "at": "2026-11-01T12:00:00Z", "source": "HS_WEB"},
        yes | {"source": "IYS"},
    ]
    _, run = await send(ingest, "consents", ndjson(lines))
    assert (run["accepted"], run["rejected"]) == (3, 2)
    assert [line for line, _, _ in await bad(ingest, run["importId"])] == [4, 5]
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.consents") == 2
    assert await ingest.pool.fetchval("SELECT granted FROM ulak.consent_states") is False


async def test_suppressions(ingest: Ingest, key_ring: KeyRing) -> None:
    lines = [
        {"channel": "EMAIL", "address": "Gone@example.com", "reason": "hard_bounce"},
        {"channel": "EMAIL", "address": "gone@example.com", "reason": "complaint", "note": "of 2025"},
        {"channel": "EMAIL", "address": "gone@example.com", "scope": "MARKETING"},
        {"channel": "SMS", "address": "0532 123 45 67", "expiresAt": "2027-01-01T00:00:00Z"},
        {"channel": "SMS", "address": "0212"},
        {"channel": "PUSH", "address": "token"},
    ]
    _, run = await send(ingest, "suppressions", ndjson(lines))
    assert (run["accepted"], run["rejected"]) == (4, 2)
    rows = await ingest.pool.fetch("SELECT * FROM ulak.suppressions ORDER BY channel, scope")
    assert [(row["channel"], row["scope"], row["reason"], row["source"], row["note"]) for row in rows] == [
        ("EMAIL", "ALL", "hard_bounce", "import", None),
        ("EMAIL", "MARKETING", "imported", "import", None),
        ("SMS", "ALL", "imported", "import", None),
    ]
    assert rows[0]["address_key"] == target_key(key_ring, "EMAIL", "gone@example.com")


async def test_suppressions_are_prolonged_and_never_shortened(ingest: Ingest) -> None:
    def line(end: str | None) -> dict[str, Any]:
        return {"channel": "EMAIL", "address": "a@example.com", "expiresAt": end}

    async def ends(*lines: dict[str, Any]) -> str | None:
        _, run = await send(ingest, "suppressions", ndjson(lines))
        assert run["accepted"] == len(lines)
        moment = await ingest.pool.fetchval("SELECT expires_at FROM ulak.suppressions")
        return None if moment is None else moment.date().isoformat()

    first, second, third = "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"
    assert await ends(line(second), line(first)) == "2027-02-01", "within a chunk"
    assert await ends(line(first)) == "2027-02-01"
    assert await ends(line(first), line(third)) == "2027-03-01"
    assert await ends(line(None), line(third)) is None
    assert await ends(line(third)) is None
