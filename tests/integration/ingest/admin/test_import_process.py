"""An import whose process is killed in the middle goes on where it was, without a line lost or taken twice."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import suppress

import asyncpg
import httpx
import orjson

from shared.core.sealing import KeyRing
from tests.integration.ingest.conftest import add_key, until
from tests.integration.ingest.process import process
from tests.integration.plain_http import plain_client

PATH = "/internal/v1/imports"
LINES = 20_000
BAD = frozenset(range(97, LINES + 1, 97))


def line(number: int) -> bytes:
    email = "nowhere" if number in BAD else f"user{number}@example.com"
    return orjson.dumps({"userId": f"u{number}", "email": email}) + b"\n"


async def lines(first: int) -> AsyncIterator[bytes]:
    for number in range(first, LINES + 1, 100):
        yield b"".join(map(line, range(number, min(number + 100, LINES + 1))))


async def test_kill_9_in_the_middle(
    database: str, pool: asyncpg.Pool, key_ring: KeyRing, kafka_bootstrap: str, redis_url: str
) -> None:
    headers = {"authorization": f"Bearer {await add_key(pool)}", "content-type": "application/x-ndjson"}
    target = random.randint(1, 15) * 1000
    async with (
        process(database, key_ring, kafka_bootstrap) as (child, url),
        plain_client(base_url=url, headers=headers, timeout=60) as client,
    ):

        async def far_enough() -> bool:
            return bool((await pool.fetchval("SELECT max(lines) FROM ulak.import_runs") or 0) >= target)

        sending = asyncio.create_task(client.post(f"{PATH}/recipients", content=lines(1)))
        await until(far_enough, seconds=60)
        child.send_signal(signal.SIGKILL)
        with suppress(httpx.TransportError):
            await sending
        await child.wait()
    async with (
        process(database, key_ring, kafka_bootstrap) as (_, url),
        plain_client(base_url=url, headers=headers, timeout=60) as client,
    ):
        [run] = (await client.get(PATH)).json()["items"]
        assert (run["state"], target <= run["lines"] < LINES) == ("RUNNING", True)

        async def gone_on() -> httpx.Response | None:
            """None while the dead stream is taken to live; its last lines may be committed after it has died."""
            first = (await client.get(f"{PATH}/{run['importId']}")).json()["lines"] + 1
            answer = await client.post(f"{PATH}/{run['importId']}?fromLine={first}", content=lines(first))
            if answer.status_code == 409 and answer.json()["code"] in {"import_streaming", "import_at_other_line"}:
                return None
            return answer

        answer = await until(gone_on, seconds=60)
        assert answer.status_code == 200, answer.text
        finished = answer.json()
        errors = (await client.get(f"{PATH}/{run['importId']}/errors")).text.splitlines()
    assert (finished["state"], finished["lines"]) == ("FINISHED", LINES)
    assert (finished["accepted"], finished["rejected"]) == (LINES - len(BAD), len(BAD))
    assert [orjson.loads(error)["line"] for error in errors] == sorted(BAD)
    stored = await pool.fetch("SELECT external_id, email_key IS NOT NULL AS known, revision FROM ulak.recipients")
    assert {row["external_id"] for row in stored} == {f"u{n}" for n in range(1, LINES + 1) if n not in BAD}
    assert {(row["known"], row["revision"]) for row in stored} == {(True, 1)}, "each line was taken once"
