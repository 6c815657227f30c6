"""What stands before the routes: keys, scopes, sizes, times, rates; over raw sockets where a client is too polite."""

import asyncio
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import orjson
import psutil
import pytest

from services.ingest.__main__ import Surfaces
from tests.integration.ingest.conftest import Ingest, add_key, order, otp, until

PATH = "/internal/v1/notifications"
OTP_PATH = "/internal/v1/otp-messages"


async def raw(
    ingest: Ingest, head: str, *, secret: str | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection and send a POST's head; the caller sends the body as it likes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(ingest.url).port)
    token = secret or ingest.client.headers["authorization"].removeprefix("Bearer ")
    writer.write(
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\n{head}\r\n".encode()
    )
    await writer.drain()
    return reader, writer


async def status_of(reader: asyncio.StreamReader) -> int:
    return int((await asyncio.wait_for(reader.readline(), 60)).split()[1])


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="none"),
        pytest.param("Bearer ulak_live_" + "x" * 43, id="unknown"),
        pytest.param("Bearer nonsense", id="malformed"),
        pytest.param("Basic dXNlcjpwYXNz", id="other-scheme"),
    ],
)
async def test_without_a_valid_key_nothing_is_answered_but_401(ingest: Ingest, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    ingest.client.headers.pop("authorization")
    for response in (
        await ingest.post(PATH, order(), headers=headers),
        await ingest.client.get(f"{PATH}/ntf_01kbapv8a4fevs0dqf3qx5kpkx", headers=headers),
        await ingest.client.get("/nowhere", headers=headers),
    ):
        assert (response.status_code, response.json()["code"]) == (401, "unauthenticated")
        assert response.headers["www-authenticate"].startswith("Bearer")


async def test_401_comes_before_the_body_is_read_A4(ingest: Ingest) -> None:
    """The answer is there although not one byte of the announced body was sent."""
    reader, writer = await raw(ingest, "Content-Length: 200000\r\n", secret="ulak_live_" + "y" * 43)
    assert await status_of(reader) == 401
    writer.close()


async def test_revoked_and_expired_keys_stop_working(ingest: Ingest) -> None:
    past = await add_key(ingest.pool, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert (await ingest.post(PATH, order(), headers={"authorization": f"Bearer {past}"})).status_code == 401
    assert (await ingest.accept()).status_code == 202
    await ingest.pool.execute("UPDATE ulak.api_keys SET revoked_at = now()")

    async def refused() -> bool:
        return (await ingest.accept()).status_code == 401

    await until(refused)


async def test_scopes_open_their_paths_only(ingest: Ingest) -> None:
    general = await add_key(ingest.pool, scopes=("notifications",))
    codes = await add_key(ingest.pool, scopes=("otp",))
    wrong = await ingest.post(OTP_PATH, otp(), headers={"authorization": f"Bearer {general}"})
    other = await ingest.post(PATH, order(), headers={"authorization": f"Bearer {codes}"})
    assert [(r.status_code, r.json()["code"]) for r in (wrong, other)] == [(403, "scope_missing")] * 2
    right = await ingest.post(OTP_PATH, otp(), headers={"authorization": f"Bearer {codes}"})
    assert right.status_code == 202


async def test_rate_of_a_key_is_kept_and_says_when_to_come_again(ingest: Ingest) -> None:
    secret = await add_key(ingest.pool, rate=5)
    headers = {"authorization": f"Bearer {secret}"}
    answers = await asyncio.gather(*(ingest.post(PATH, order(eventId=f"e-{n}"), headers=headers) for n in range(20)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) >= 10
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert refused[0].json()["code"] == "rate_limited"


async def test_a_batch_counts_for_each_of_its_items(ingest: Ingest) -> None:
    secret = await add_key(ingest.pool, rate=10)
    headers = {"authorization": f"Bearer {secret}"}
    batch = {"items": [order(eventId=f"e-{n}") for n in range(100)]}
    assert (await ingest.post(f"{PATH}/batch", batch, headers=headers)).status_code == 200
    later = await ingest.post(PATH, order(eventId="later"), headers=headers)
    assert later.status_code == 429
    assert 5 <= int(later.headers["retry-after"]) <= 10


async def test_declared_length_over_the_limit_is_refused_unread_A3(ingest: Ingest) -> None:
    reader, writer = await raw(ingest, "Content-Length: 1000000000\r\n")
    assert await status_of(reader) == 413
    writer.close()


async def test_chunked_body_without_end_is_refused_and_memory_stays_flat_A3(ingest: Ingest) -> None:
    """64 MiB offered in chunks: 413 after 256 KiB, and the process does not grow by what was offered."""
    before = psutil.Process().memory_info().rss
    reader, writer = await raw(ingest, "Transfer-Encoding: chunked\r\n")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    try:
        for _ in range(1024):
            writer.write(chunk)
            await asyncio.wait_for(writer.drain(), 2)
    except (ConnectionError, TimeoutError):
        pass  # the server has stopped listening, which is the point
    else:
        raise AssertionError("all 64 MiB were taken in")
    assert psutil.Process().memory_info().rss - before < 16 * 2**20
    writer.close()
    assert reader is not None


async def test_chunked_body_over_the_limit_is_answered_413_A3(ingest: Ingest) -> None:
    reader, writer = await raw(ingest, "Transfer-Encoding: chunked\r\n")
    for _ in range(5):
        writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
    await writer.drain()
    assert await status_of(reader) == 413
    writer.close()


async def test_a_body_of_one_byte_a_second_is_cut_off_A3(ingest: Ingest) -> None:
    """The limit is for the whole body (1 s here): bytes that trickle in do not prolong it."""
    reader, writer = await raw(ingest, "Content-Length: 1000\r\n")

    async def trickle() -> None:
        while True:
            writer.write(b" ")
            await asyncio.sleep(0.2)

    dripping = asyncio.create_task(trickle())
    assert await status_of(reader) == 408
    dripping.cancel()
    writer.close()


@pytest.mark.parametrize(
    ("content", "content_type", "status", "code"),
    [
        pytest.param(b"{}", "text/plain", 415, "unsupported_media_type", id="content-type"),
        pytest.param(b"", "application/json", 400, "malformed_json", id="empty"),
        pytest.param(b'{"eventId": ', "application/json", 400, "malformed_json", id="cut-off"),
        pytest.param(b"\xff\xfe", "application/json; charset=utf-8", 400, "malformed_json", id="not-utf-8"),
        pytest.param(b'{"params": {"a": NaN}}', "application/json", 400, "malformed_json", id="nan"),
        pytest.param(b"[" * 100_000, "application/json", 400, "malformed_json", id="nested-too-deeply"),
        pytest.param(b"null", "application/json", 422, "invalid_request", id="null"),
        pytest.param(b"[]", "application/json", 422, "invalid_request", id="list"),
    ],
)
async def test_bodies_that_are_no_request(
    ingest: Ingest, content: bytes, content_type: str, status: int, code: str
) -> None:
    response = await ingest.client.post(PATH, content=content, headers={"content-type": content_type})
    assert (response.status_code, response.json()["code"]) == (status, code)


async def test_bodies_up_to_the_limit_are_taken(ingest: Ingest) -> None:
    """256 KiB for one; a batch may have 5 MiB."""
    body = order(params={**order()["params"], "note": "x" * (250 * 1024)})
    assert (await ingest.post(PATH, body)).status_code == 202
    assert (await ingest.post(PATH, order(params={**order()["params"], "note": "x" * (260 * 1024)}))).status_code == 413
    items = [order(eventId=f"e-{n}", params={**order()["params"], "note": "x" * 200_000}) for n in range(20)]
    assert 3 * 2**20 < len(orjson.dumps(items)) < 5 * 2**20
    assert (await ingest.post(f"{PATH}/batch", {"items": items})).status_code == 200
    assert (await ingest.post(f"{PATH}/batch", {"items": items * 2})).status_code == 413
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 21


async def test_unknown_paths_and_methods_are_problems(ingest: Ingest) -> None:
    nowhere = await ingest.client.get("/internal/v1/nowhere")
    method = await ingest.client.delete(PATH)
    assert [(r.status_code, r.json()["code"]) for r in (nowhere, method)] == [
        (404, "not_found"),
        (405, "method_not_allowed"),
    ]


async def test_ready_and_metrics(ingest: Ingest) -> None:
    await ingest.accept()
    ready = await ingest.client.get(f"{ingest.health_url}/readyz")
    assert ready.json() == {"ready": True, "checks": {"postgres": True, "catalogue": True, "partition": True}}
    metrics = (await ingest.client.get(f"{ingest.health_url}/metrics")).text
    assert 'ulak_http_requests_total{route="/internal/v1/notifications",status="202"}' in metrics


@pytest.mark.parametrize("surfaces", [[Surfaces.ALL]], ids=["all"])
async def test_login_codes_are_let_in_while_administration_is_stuck(ingest: Ingest) -> None:
    """A key that nobody knows yet is looked up, although each of administration's connections waits for a lock."""
    await ingest.pool.execute("INSERT INTO ulak.recipients (external_id) VALUES ('7')")
    async with ingest.pool.acquire() as other, other.transaction():
        await other.execute("SELECT 1 FROM ulak.recipients FOR UPDATE")
        stuck = [
            asyncio.create_task(
                ingest.client.patch(
                    "/internal/v1/recipients/7", json={"locale": "tr"}, headers={"if-match": "*"}, timeout=60
                )
            )
            for _ in range(8)
        ]

        async def all_wait() -> bool:
            return bool(
                await ingest.pool.fetchval(
                    "SELECT count(*) = 4 FROM pg_stat_activity WHERE datname = current_database()"
                    " AND application_name = 'ulak ingest admin' AND wait_event_type = 'Lock'"
                )
            )

        await until(all_wait)
        secret = await add_key(ingest.pool)
        accepted = await ingest.post(OTP_PATH, otp(), headers={"authorization": f"Bearer {secret}"})
        assert accepted.status_code == 202, accepted.text
        assert (await ingest.client.get(f"{ingest.health_url}/readyz")).status_code == 200
    assert {answer.status_code for answer in await asyncio.gather(*stuck)} == {200}
