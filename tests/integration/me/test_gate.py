"""What stands before the routes: tokens, pages, sizes, times, rates; over raw sockets where a client is too polite."""

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from shared.core.sealing import KeyRing
from tests.integration.me.conftest import (
    AUDIENCE,
    DEVICES,
    ORIGIN,
    PREFERENCES,
    SECRET,
    Me,
    running,
    settings_of,
    token,
)
from tests.integration.plain_http import plain_client


@pytest.mark.parametrize(
    "bearer",
    [
        pytest.param(None, id="none"),
        pytest.param("nonsense", id="no-token"),
        pytest.param("a.b.c", id="three-parts"),
        pytest.param("x" * 10_000, id="huge"),
    ],
)
async def test_without_a_valid_token_nothing_is_answered_but_401(me: Me, bearer: str | None) -> None:
    headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
    for method, path in (("GET", PREFERENCES), ("PUT", PREFERENCES), ("POST", DEVICES), ("GET", "/nowhere")):
        answer = await me.client.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"exp": int(time.time()) - 60}, id="expired"),
        pytest.param({"exp": None}, id="no-exp"),
        pytest.param({"iss": "https://other.example"}, id="issuer"),
        pytest.param({"iss": None}, id="no-iss"),
        pytest.param({"aud": "other"}, id="audience"),
        pytest.param({"aud": None}, id="no-aud"),
        pytest.param({"nbf": int(time.time()) + 3600}, id="not-yet"),
        pytest.param({"key": "another secret of more than thirty-two bytes"}, id="secret"),
    ],
)
async def test_a_token_of_another_time_place_or_signer_is_401(me: Me, changes: dict[str, Any]) -> None:
    answer = await me.client.get(PREFERENCES, headers={"authorization": f"Bearer {token(**changes)}"})
    assert answer.status_code == 401


async def test_an_audience_may_be_one_of_several(me: Me) -> None:
    bearer = token(aud=["other", AUDIENCE])
    assert (await me.client.get(PREFERENCES, headers={"authorization": f"Bearer {bearer}"})).status_code == 200


async def test_401_comes_before_the_body_is_read_A4(me: Me) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(me.url).port)
    writer.write(b"PUT /api/v1/me/notification-preferences HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n")
    await writer.drain()
    assert int((await asyncio.wait_for(reader.readline(), 60)).split()[1]) == 401
    writer.close()


async def test_bodies_are_bounded_in_size_and_time_A3(me: Me) -> None:
    large = await me.client.put(PREFERENCES, json={"types": {"X": {}}, "pad": "x" * 70_000}, headers=me.headers())
    assert (large.status_code, large.json()["code"]) == (413, "body_too_large")
    wrong = await me.client.put(PREFERENCES, content=b"{}", headers=me.headers() | {"content-type": "text/plain"})
    assert wrong.status_code == 415
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(me.url).port)
    head = f"PUT {PREFERENCES} HTTP/1.1\r\nHost: x\r\nAuthorization: {me.headers()['authorization']}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
    await writer.drain()
    assert int((await asyncio.wait_for(reader.readline(), 60)).split()[1]) == 408
    writer.close()


async def test_only_the_named_pages_may_call_and_never_with_credentials(me: Me) -> None:
    asked = {"access-control-request-method": "PUT", "access-control-request-headers": "authorization,content-type"}
    allowed = await me.client.options(PREFERENCES, headers={"origin": ORIGIN} | asked)
    assert allowed.status_code == 204
    assert allowed.headers["access-control-allow-origin"] == ORIGIN
    assert "PUT" in allowed.headers["access-control-allow-methods"]
    assert "Authorization" in allowed.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in allowed.headers
    for origin in ("https://evil.example", f"{ORIGIN}.evil.example", "null", ORIGIN.upper()):
        refused = await me.client.options(PREFERENCES, headers={"origin": origin} | asked)
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


async def test_answers_of_every_kind_carry_the_headers_that_keep_them_private(me: Me) -> None:
    for answer in (
        await me.client.get(PREFERENCES, headers=me.headers() | {"origin": ORIGIN}),
        await me.client.get(PREFERENCES, headers={"origin": ORIGIN}),
        await me.client.get("/api/v1/me/nowhere", headers=me.headers() | {"origin": ORIGIN}),
    ):
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert answer.headers["vary"] == "Origin"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_unknown_paths_and_methods_are_problems(me: Me) -> None:
    assert (await me.get("/api/v1/me/nowhere")).json()["code"] == "not_found"
    wrong = await me.client.patch(PREFERENCES, json={}, headers=me.headers())
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")


async def test_a_user_who_calls_too_often_is_told_when_to_come_again_and_others_go_on(
    database: str, pool: asyncpg.Pool, redis_url: str, key_prefix: str, key_ring: KeyRing
) -> None:
    settings = settings_of(database, redis_url, key_prefix, rate_per_second=1, burst=3)
    async with running(settings, key_ring) as url, plain_client(base_url=url, timeout=60) as client:
        mine = {"authorization": f"Bearer {token('7')}"}
        answers = [await client.get(PREFERENCES, headers=mine) for _ in range(20)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert [answer.status_code for answer in answers[:3]] == [200, 200, 200]
        assert refused
        assert {answer.json()["code"] for answer in refused} == {"rate_limited"}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        other = await client.get(PREFERENCES, headers={"authorization": f"Bearer {token('8')}"})
        assert other.status_code == 200


async def test_without_redis_a_process_counts_by_itself(
    database: str, pool: asyncpg.Pool, key_prefix: str, key_ring: KeyRing
) -> None:
    settings = settings_of(database, "redis://127.0.0.1:1/0", key_prefix, rate_per_second=2)
    async with running(settings, key_ring) as url, plain_client(base_url=url, timeout=60) as client:
        mine = {"authorization": f"Bearer {token('7')}"}
        answers = await asyncio.gather(*(client.get(PREFERENCES, headers=mine) for _ in range(40)))
        assert {answer.status_code for answer in answers} == {200, 429}
        written = await client.put(PREFERENCES, json={}, headers={"authorization": f"Bearer {token('8')}"})
        assert written.status_code == 200


async def test_it_is_ready_and_tells_its_metrics(me: Me) -> None:
    async with plain_client(timeout=60) as client:
        ready = await client.get(f"{me.health_url}/readyz")
        assert ready.json() == {"ready": True, "checks": {"postgres": True}}
        await me.get(f"{DEVICES}")
        await me.delete(f"{DEVICES}/phone")
        metrics = (await client.get(f"{me.health_url}/metrics")).text
    assert 'ulak_http_requests_total{route="/api/v1/me/devices/{deviceId}",status="404"}' in metrics
    assert SECRET not in metrics
