"""Applications and their keys over the API, and by the command on the same tables."""

import asyncio
import hashlib
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
import pytest

from shared.core.address import target_key
from shared.core.sealing import KeyRing
from tests.integration.ingest.admin.audit import audited, last_detail, whole_log
from tests.integration.ingest.conftest import Ingest, until

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

APPLICATIONS, KEYS = "/internal/v1/applications", "/internal/v1/api-keys"


async def put(ingest: Ingest, name: str, sources: list[str], match: str | None = None) -> httpx.Response:
    headers = {} if match is None else {"if-match": match}
    return await ingest.client.put(f"{APPLICATIONS}/{name}", json={"sources": sources}, headers=headers)


async def create(ingest: Ingest, **terms: Any) -> httpx.Response:
    return await ingest.post(KEYS, {"name": "billing", "application": "billing"} | terms)


async def patch(ingest: Ingest, key: str, body: Any, match: str | None = "*") -> httpx.Response:
    headers = {} if match is None else {"if-match": match}
    return await ingest.client.patch(f"{KEYS}/{key}", json=body, headers=headers)


async def admitted(ingest: Ingest, secret: str) -> int:
    answer = await ingest.client.get(APPLICATIONS, headers={"authorization": f"Bearer {secret}"})
    return answer.status_code


async def test_an_application_and_its_sources(ingest: Ingest) -> None:
    created = await put(ingest, "orders", ["urn:shop:orders", "urn:shop:orders"])
    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    assert (created.json()["name"], created.json()["sources"]) == ("orders", ["urn:shop:orders"])
    assert (await put(ingest, "orders", [])).status_code == 428
    taken = await put(ingest, "billing", ["urn:shop:orders"])
    assert (taken.status_code, [error["path"] for error in taken.json()["errors"]]) == (409, ["sources"])
    assert (await put(ingest, "orders", ["urn:a"], '"1"')).headers["etag"] == '"2"'
    assert (await put(ingest, "orders", ["urn:b"], '"1"')).status_code == 412
    assert (await put(ingest, "orders", ["urn:a"], "*")).headers["etag"] == '"2"', "the same again is no change"
    assert (await put(ingest, "billing", ["urn:shop:orders"])).status_code == 201
    names = [item["name"] for item in (await ingest.client.get(APPLICATIONS)).json()["items"]]
    assert names == ["billing", "orders", "shop"]
    assert (await ingest.client.get(f"{APPLICATIONS}/nobody")).status_code == 404
    assert await audited(ingest.pool) == [
        ("created", "application", "orders"),
        ("updated", "application", "orders"),
        ("created", "application", "billing"),
    ]


async def test_a_secret_is_told_once_and_works(ingest: Ingest) -> None:
    created = await create(ingest, scopes=["admin", "notifications", "admin"])

    assert created.status_code == 201
    body = created.json()
    secret = body.pop("secret")
    assert secret.startswith("ulak_live_")
    assert body["scopes"] == ["notifications", "admin"]
    read = await ingest.client.get(f"{KEYS}/{body['id']}")
    assert (read.json(), read.headers["etag"]) == (body, '"1"')
    assert await admitted(ingest, secret) == 200
    stored = await ingest.pool.fetchval("SELECT secret_hash FROM ulak.api_keys WHERE name = 'billing'")
    assert stored == hashlib.sha256(secret.encode()).digest()
    assert (await audited(ingest.pool))[-1] == ("created", "api_key", body["id"])
    log = await whole_log(ingest.pool)
    assert secret not in log
    assert stored.hex() not in log


async def test_a_revoked_key_is_refused_within_seconds(ingest: Ingest) -> None:
    created = (await create(ingest, scopes=["admin"])).json()
    assert await admitted(ingest, created["secret"]) == 200

    revoked = [await ingest.client.post(f"{KEYS}/{created['id']}/revoke") for _ in range(2)]

    assert [answer.status_code for answer in revoked] == [200, 200]
    assert revoked[0].json() == revoked[1].json()
    assert revoked[0].json()["revokedAt"] is not None

    async def refused() -> bool:
        return await admitted(ingest, created["secret"]) == 401

    await until(refused, seconds=60)
    assert [line[0] for line in await audited(ingest.pool)] == ["created", "revoked"]
    assert (await ingest.client.post(f"{KEYS}/key_00000000000000000000000000/revoke")).status_code == 404
    assert (await ingest.client.post(f"{KEYS}/nonsense/revoke")).status_code == 404


async def test_a_team_key_keeps_hashes_of_whom_it_may_reach(ingest: Ingest, key_ring: KeyRing) -> None:
    addresses = ["Ayse@Shop.example", "0532 123 45 67"]
    created = (await create(ingest, kind="team", allowList=addresses)).json()
    assert created["allowed"] == 2
    stored = await ingest.pool.fetchval("SELECT allow_list FROM ulak.api_keys WHERE kind = 'team'")
    assert stored == [target_key(key_ring, "EMAIL", "ayse@shop.example"), target_key(key_ring, "SMS", "+905321234567")]
    wrong = await patch(ingest, created["id"], {"allowList": ["ayse@shop.example", "nobody"]})
    assert (wrong.status_code, [error["path"] for error in wrong.json()["errors"]]) == (422, ["allowList.1"])
    assert (await patch(ingest, created["id"], {"allowList": []})).json()["allowed"] == 0
    log = await whole_log(ingest.pool)
    assert "hop.example" not in log
    assert "1234567" not in log


@pytest.mark.parametrize("kind", ["team", "test"])
async def test_a_key_that_does_not_reach_everybody_makes_none_that_does(ingest: Ingest, kind: str) -> None:
    secret = (await create(ingest, kind=kind, scopes=["all"])).json()["secret"]
    headers = {"authorization": f"Bearer {secret}"}
    for answer in (
        await ingest.post(KEYS, {"name": "mine", "application": "billing"}, headers=headers),
        await ingest.client.get(KEYS, headers=headers),
        await ingest.client.put(f"{APPLICATIONS}/billing", json={"sources": ["*"]}, headers=headers),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "live_key_needed")
    assert (await ingest.client.get("/internal/v1/suppressions", headers=headers)).status_code == 200
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.api_keys") == 2


async def test_terms_are_changed_by_name(ingest: Ingest) -> None:
    end = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    created = (await create(ingest, ratePerSecond=5, expiresAt=end.isoformat())).json()
    assert (await patch(ingest, created["id"], {"name": "x"}, None)).status_code == 428

    changed = await patch(ingest, created["id"], {"ratePerSecond": None, "scopes": ["otp"]}, '"1"')

    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    body = changed.json()
    assert (body["name"], body["scopes"], body["ratePerSecond"]) == ("billing", ["otp"], None)
    assert datetime.fromisoformat(body["expiresAt"]) == end
    assert (await patch(ingest, created["id"], {"name": "x"}, '"1"')).status_code == 412
    assert (await last_detail(ingest.pool))["scopes"] == ["otp"]


@pytest.mark.parametrize(
    ("terms", "path"),
    [
        pytest.param({"kind": "live", "allowList": ["a@shop.example"]}, "allowList", id="live-with-list"),
        pytest.param({"expiresAt": "2026-01-01T00:00:00Z"}, "expiresAt", id="over"),
        pytest.param({"scopes": []}, "scopes", id="no-scope"),
        pytest.param({"scopes": ["root"]}, "scopes.0", id="scope"),
        pytest.param({"ratePerSecond": 0}, "ratePerSecond", id="rate"),
    ],
)
async def test_wrong_terms_name_their_field(ingest: Ingest, terms: dict[str, Any], path: str) -> None:
    refused = await create(ingest, **terms)
    assert refused.status_code == 422
    assert [error["path"] for error in refused.json()["errors"]] == [path]


async def test_the_list_comes_in_pages_and_tells_no_secret(ingest: Ingest) -> None:
    for number in range(3):
        await create(ingest, name=f"key {number}")
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query = f"?application=billing&limit=2{f'&cursor={cursor}' if cursor else ''}"
        page = (await ingest.client.get(f"{KEYS}{query}")).json()
        names += [item["name"] for item in page["items"]]
        assert not [item for item in page["items"] if "secret" in item]
        cursor = page["cursor"]
    assert names == ["key 0", "key 1", "key 2"]


async def test_the_command_makes_and_revokes_the_same_keys_and_writes_it_down(ingest: Ingest, database: str) -> None:
    async def ulak(*arguments: str) -> Any:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ops.cli", "api-keys", *arguments, "--json"),
            env={**os.environ, "ULAK_POSTGRES_DSN": database},
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        return orjson.loads(output)

    created = await ulak("create", "--name", "desk", "--application", "billing", "--scopes", "admin")
    assert await admitted(ingest, created["secret"]) == 200
    assert [key["name"] for key in (await ulak("list"))["keys"]] == ["test", "desk"]
    revoked = await ulak("revoke", created["id"])
    assert (await ingest.client.get(f"{KEYS}/{created['id']}")).json()["revokedAt"] is not None
    assert revoked["id"] == created["id"]
    assert await audited(ingest.pool) == [("created", "api_key", created["id"]), ("revoked", "api_key", created["id"])]
    actors = await ingest.pool.fetch("SELECT DISTINCT actor FROM ulak.audit_log")
    assert [actor["actor"].partition(" ")[0] for actor in actors] == ["operator"]
