"""Imports over the API, on real servers; fixtures: ingest (a running service), key_ring."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest

from services.ingest.__main__ import Surfaces
from services.ingest.settings import IngestSettings
from shared.core.address import target_key
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool
from tests.integration.ingest.admin.audit import audited, last_detail
from tests.integration.ingest.admin.stream import (
    HEADERS,
    PATH,
    bad,
    chunked,
    ndjson,
    opened,
    run_of,
    send,
    status_of,
    streaming,
    users,
)
from tests.integration.ingest.conftest import Ingest, add_key, running, until
from tests.integration.plain_http import plain_client

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

LINES: tuple[Any, ...] = (
    {"userId": "ayse", "email": "Ayse@example.com", "phone": "0532 123 45 67", "attributes": {"vip": True}},
    b"\n",
    {"userId": 8, "timeZone": "Europe/Istanbul", "locale": "tr-TR", "colour": "red"},
    b"{not json}\n",
    {"userId": "mehmet", "email": "not an address"},
    {"userId": "ayse", "locale": "en", "phone": None},
    b'{"userId": "' + b"x" * 70_000 + b'"}\n',
    {
        "userId": "deniz",
        "devices": [{"token": "AB" * 32, "platform": "IOS", "environment": "sandbox"}],
        "preferences": {"MARKETING": {"PUSH": False}, "types": {"ORDER_SHIPPED": {"EMAIL": False}}},
    },
    {"userId": "kemal", "preferences": {"types": {"NO_SUCH_TYPE": {"EMAIL": False}}}},
    {"userId": "nil", "devices": [{"token": "short", "platform": "ANDROID"}]},
    b'{"userId": "the last one has no end"}',
)
BAD = [
    (3, "invalid", "colour"),
    (4, "malformed_json", ""),
    (5, "invalid", "email"),
    (7, "line_too_long", ""),
    (9, "invalid", "preferences.types.NO_SUCH_TYPE"),
    (10, "invalid", "devices.0.token"),
]


@pytest.mark.parametrize(
    ("pack", "headers"),
    [
        pytest.param(bytes, {}, id="plain"),
        pytest.param(gzip.compress, {"content-encoding": "gzip"}, id="gzip"),
        pytest.param(
            lambda body: gzip.compress(body[:100]) + gzip.compress(body[100:]),
            {"content-encoding": "gzip"},
            id="two-members-of-gzip",
        ),
    ],
)
async def test_recipients_and_what_is_wrong_with_each_bad_line(
    ingest: Ingest, key_ring: KeyRing, pack: Any, headers: dict[str, str]
) -> None:
    status, run = await send(ingest, "recipients", pack(ndjson(LINES)), headers=headers)
    assert (status, run["state"], run["lines"], run["accepted"], run["rejected"]) == (200, "FINISHED", 11, 4, 6)
    assert await bad(ingest, run["importId"]) == BAD
    assert await bad(ingest, run["importId"], after=5) == BAD[3:]
    rows = await ingest.pool.fetch("SELECT * FROM ulak.recipients ORDER BY external_id")
    assert [row["external_id"] for row in rows] == ["ayse", "deniz", "the last one has no end"]
    ayse = rows[0]
    assert ayse["email_key"] == target_key(key_ring, "EMAIL", "ayse@example.com")
    assert open_sealed(key_ring, Purpose.ADDRESS, ayse["email_key"], ayse["email_sealed"]) == b"Ayse@example.com"
    assert (ayse["locale"], ayse["attributes"], ayse["phone_key"] is None) == ("en", {"vip": True}, False)
    assert await ingest.pool.fetchval("SELECT token_key FROM ulak.devices") == target_key(key_ring, "PUSH", "ab" * 32)
    words = await ingest.pool.fetch("SELECT category, channel, type, enabled FROM ulak.user_preferences ORDER BY 1")
    assert [tuple(row) for row in words] == [
        ("MARKETING", "PUSH", "", False),
        ("TRANSACTIONAL", "EMAIL", "ORDER_SHIPPED", False),
    ]
    assert await audited(ingest.pool) == [
        ("started", "import", run["importId"]),
        ("imported", "import", run["importId"]),
    ]
    assert await last_detail(ingest.pool) == {"kind": "recipients", "lines": 11, "accepted": 4, "rejected": 6}


async def test_nothing_that_a_line_says_is_told_of_it(ingest: Ingest) -> None:
    secret = "ayse@example"
    lines = [
        {"userId": "1", "email": secret},
        {"userId": "2", "phone": secret},
        {"userId": "3", "timeZone": secret},
        f'{{"userId": "{secret}'.encode() + b"\n",
        {"userId": "4", "preferences": {"MARKETING": {"PUSH": secret}}},
        {"userId": "5\u0007", "locale": secret},
    ]
    _, run = await send(ingest, "recipients", ndjson(lines))
    answer = await ingest.client.get(f"{PATH}/{run['importId']}/errors")
    assert len(answer.text.splitlines()) == len(lines)
    assert secret not in answer.text


async def test_a_line_that_the_database_refuses_takes_no_other_along(ingest: Ingest) -> None:
    await ingest.pool.execute(
        "ALTER TABLE ulak.recipients ADD CHECK (external_id NOT IN ('u3', 'u500', 'u1700', 'u2499'))"
    )
    _, run = await send(ingest, "recipients", ndjson(users(0, 2500)))
    assert (run["lines"], run["accepted"], run["rejected"]) == (2500, 2496, 4)
    assert await bad(ingest, run["importId"]) == [(number, "refused", "") for number in (4, 501, 1701, 2500)]
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 2496


class TestGoingOn:
    async def test_only_at_the_line_where_it_is(self, ingest: Ingest) -> None:
        import_id = await opened(ingest)
        async with streaming(ingest, f"{import_id}?fromLine=1") as (_, writer):
            writer.write(chunked(ndjson(users(0, 1500)) + b'{"userId": "half'))
            await writer.drain()
            await until(lambda: _lines(ingest, import_id, 1000))
        await until(lambda: _lines(ingest, import_id, 1500))
        for wrong in (1, 1500, 1502):
            status, problem = await send(ingest, f"{import_id}?fromLine={wrong}", ndjson(users(0, 10)))
            assert (status, problem["code"]) == (409, "import_at_other_line")
            assert "fromLine=1501" in problem["detail"]
        status, run = await send(ingest, f"{import_id}?fromLine=1501", ndjson(users(1500, 2000)))
        assert (status, run["state"], run["lines"], run["accepted"]) == (200, "FINISHED", 2000, 2000)
        assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.recipients WHERE revision = 1") == 2000
        status, problem = await send(ingest, f"{import_id}?fromLine=2001", b"")
        assert (status, problem["code"]) == (409, "import_ended")

    async def test_a_second_stream_is_refused_while_the_first_lives(self, ingest: Ingest) -> None:
        import_id = await opened(ingest)
        async with streaming(ingest, f"{import_id}?fromLine=1") as (reader, writer):
            writer.write(chunked(ndjson(users(0, 10))))
            await until(lambda: _streaming(ingest, import_id))
            status, problem = await send(ingest, f"{import_id}?fromLine=1", ndjson(users(0, 10)))
            assert (status, problem["code"]) == (409, "import_streaming")
            writer.write(b"0\r\n\r\n")
            assert await status_of(reader) == 200
        assert (await run_of(ingest, import_id))["state"] == "FINISHED"

    async def test_an_abort_ends_the_stream_and_keeps_what_was_taken(self, ingest: Ingest) -> None:
        import_id = await opened(ingest)
        async with streaming(ingest, f"{import_id}?fromLine=1") as (reader, writer):
            writer.write(chunked(ndjson(users(0, 1000))))
            await until(lambda: _lines(ingest, import_id, 1000))
            aborted = await ingest.client.post(f"{PATH}/{import_id}/abort")
            assert (aborted.status_code, aborted.json()["state"]) == (200, "ABORTED")
            writer.write(chunked(ndjson(users(1000, 2000))))
            assert await status_of(reader) == 409
        run = await run_of(ingest, import_id)
        assert (run["state"], run["lines"], run["streaming"]) == ("ABORTED", 1000, False)
        assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 1000
        assert (await ingest.client.post(f"{PATH}/{import_id}/abort")).status_code == 409
        assert ("aborted", "import", import_id) in await audited(ingest.pool)

    async def test_after_the_database_was_away(self, ingest: Ingest) -> None:
        """The server ends the connection of the second chunk while it is being written."""
        import_id = await opened(ingest)
        async with ingest.pool.acquire() as other, other.transaction():
            await other.execute("INSERT INTO ulak.recipients (external_id) VALUES ('u1500')")
            sending = asyncio.create_task(
                ingest.client.post(f"{PATH}/{import_id}?fromLine=1", content=ndjson(users(0, 2000)), headers=HEADERS)
            )

            async def ended() -> bool:
                return bool(
                    await ingest.pool.fetchval(
                        "SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND application_name = 'ulak ingest imports'"
                        " AND wait_event_type = 'Lock'"
                    )
                )

            await until(ended)
            answer = await sending
        assert (answer.status_code, answer.headers["location"]) == (503, f"{PATH}/{import_id}")
        assert (await run_of(ingest, import_id))["lines"] == 1000

        async def gone_on() -> bool:
            status, _ = await send(ingest, f"{import_id}?fromLine=1001", ndjson(users(1000, 2000)))
            return status == 200

        await until(gone_on)
        assert (await run_of(ingest, import_id))["accepted"] == 2000

    async def test_who_is_too_slow_keeps_what_arrived(self, ingest: Ingest) -> None:
        import_id = await opened(ingest)
        async with streaming(ingest, f"{import_id}?fromLine=1") as (reader, writer):
            writer.write(chunked(ndjson(users(0, 10)) + b'{"userId":'))
            assert await status_of(reader) == 408
        run = await run_of(ingest, import_id)
        assert (run["state"], run["lines"]) == ("RUNNING", 10)


async def test_runs_are_listed_and_limited(ingest: Ingest) -> None:
    first, second, third = [await opened(ingest) for _ in range(3)]
    async with (
        streaming(ingest, f"{first}?fromLine=1") as (_, one),
        streaming(ingest, f"{second}?fromLine=1") as (_, two),
    ):
        for writer in (one, two):
            writer.write(chunked(ndjson(users(0, 1))))
        await until(lambda: _streaming(ingest, first))
        await until(lambda: _streaming(ingest, second))
        answer = await ingest.client.post(f"{PATH}/{third}?fromLine=1", content=b"", headers=HEADERS)
        assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (
            429,
            "too_many_imports",
            "10",
        )
        assert (await send(ingest, "recipients", ndjson(users(0, 1))))[0] == 429, "and leaves no run behind"

    async def free() -> bool:
        status, _ = await send(ingest, f"{third}?fromLine=1", b"")
        return status == 200

    await until(free)
    page = (await ingest.client.get(PATH, params={"limit": 2})).json()
    rest = (await ingest.client.get(PATH, params={"limit": 2, "cursor": page["cursor"]})).json()
    assert [run["importId"] for run in page["items"] + rest["items"]] == [third, second, first]
    running_ones = (await ingest.client.get(PATH, params={"state": "RUNNING"})).json()["items"]
    assert [run["importId"] for run in running_ones] == [second, first]


@pytest.mark.parametrize(
    ("kind", "headers", "body", "status", "code"),
    [
        pytest.param(
            "recipients", {"content-type": "application/json"}, b"{}", 415, "unsupported_media_type", id="json"
        ),
        pytest.param("recipients", {"content-encoding": "br"}, b"{}", 415, "unsupported_media_type", id="brotli"),
        pytest.param("recipients", {"content-encoding": "gzip"}, b"{}", 400, "broken_gzip", id="no-gzip"),
        pytest.param(
            "recipients",
            {"content-encoding": "gzip"},
            gzip.compress(b"{}\n" * 99)[:-9],
            400,
            "broken_gzip",
            id="cut-off",
        ),
        pytest.param(
            "recipients", {"content-encoding": "gzip"}, gzip.compress(b" " * 2**26), 413, "body_too_large", id="bomb"
        ),
        pytest.param("pigeons?fromLine=1", {}, b"{}", 422, "invalid_request", id="unknown-kind"),
        pytest.param("imp_01kbapv8a4fevs0dqf3qx5kpkx?fromLine=1", {}, b"{}", 404, "not_found", id="unknown-run"),
    ],
)
async def test_refused(ingest: Ingest, kind: str, headers: dict[str, str], body: bytes, status: int, code: str) -> None:
    answered, problem = await send(ingest, kind, body, headers=headers)
    assert (answered, problem["code"]) == (status, code)


async def test_lines_beyond_all_numbers_are_the_callers_mistake(ingest: Ingest) -> None:
    import_id, beyond = await opened(ingest), 10**30
    status, problem = await send(ingest, f"{import_id}?fromLine={beyond}", b"{}")
    assert (status, problem["errors"][0]["path"]) == (422, "fromLine")
    answer = await ingest.client.get(f"{PATH}/{import_id}/errors", params={"after": beyond})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "after")


async def test_only_keys_with_the_scope(ingest: Ingest) -> None:
    secret = await add_key(ingest.pool, scopes=("notifications", "otp"))
    status, problem = await send(ingest, "recipients", b"{}\n", headers={"authorization": f"Bearer {secret}"})
    assert (status, problem["code"]) == (403, "scope_missing")


async def test_memory_stays_flat_however_much_comes(ingest: Ingest) -> None:
    """64 MiB in lines of 60,000 bytes, most of them attributes that are too large; not one is lost."""
    line = ndjson([{"userId": "ayse", "attributes": {"text": "x" * 60_000}}])
    count = 64 * 2**20 // len(line)
    before = psutil.Process().memory_info().rss

    async def body() -> AsyncIterator[bytes]:
        for _ in range(count):
            yield line

    _, run = await send(ingest, "recipients", body())
    assert (run["lines"], run["rejected"]) == (count, count)
    assert psutil.Process().memory_info().rss - before < 32 * 2**20


async def test_login_codes_are_accepted_all_along_an_import(
    database: str, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing, catalogue: None
) -> None:
    """100,000 lines as fast as they go, in the process that accepts the codes: each code is accepted before the next
    ten chunks are, until the import has ended.
    """
    secret = await add_key(pool)
    settings = IngestSettings(import_rows_per_second=1_000_000)
    async with (
        running(database, kafka_settings, key_ring, surfaces=[Surfaces.ALL], ingest=settings) as (url, health),
        plain_client(base_url=url, headers={"authorization": f"Bearer {secret}"}, timeout=60) as client,
    ):
        ingest = Ingest(url, health, client, pool, kafka_settings)
        import_id = await opened(ingest)

        async def body() -> AsyncIterator[bytes]:
            for first in range(0, 100_000, 500):
                yield ndjson(users(first, first + 500))

        importing = asyncio.create_task(send(ingest, f"{import_id}?fromLine=1", body()))
        behind: list[int] = []
        code = 0
        while not importing.done():
            before = await pool.fetchval("SELECT lines FROM ulak.import_runs")
            code += 1
            accepted = await ingest.send_code(requestId=f"login-{code}", phone=f"+90532{code % 10**7:07}")
            assert accepted.status_code == 202, accepted.text
            behind.append(await pool.fetchval("SELECT lines FROM ulak.import_runs") - before)
        status, run = await importing
    assert (status, run["lines"], run["accepted"]) == (200, 100_000, 100_000)
    assert code > 100, "codes went on"
    assert max(behind) <= 10_000, "no code waited for a tenth of the import"


async def _lines(ingest: Ingest, import_id: str, lines: int) -> bool:
    return bool((await run_of(ingest, import_id))["lines"] >= lines)


async def _streaming(ingest: Ingest, import_id: str) -> bool:
    return bool((await run_of(ingest, import_id))["streaming"])
