"""`ulak import` against the running service."""

import gzip
import re
import signal
from collections.abc import Collection
from pathlib import Path

import orjson
import pytest

from services.ingest.__main__ import Surfaces
from tests.integration.ingest.conftest import Ingest, until
from tests.integration.ingest.test_commands import end_of, environment_of, run, start

pytestmark = [pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture
def surfaces() -> Collection[Surfaces]:
    return [Surfaces.ALL]


def lines(count: int) -> bytes:
    return b"".join(
        orjson.dumps({"userId": f"u{number}", "locale": "?" if number % 100 == 0 else "tr"}) + b"\n"
        for number in range(1, count + 1)
    )


async def test_a_packed_file_and_its_bad_lines(ingest: Ingest, database: str, tmp_path: Path) -> None:
    path = tmp_path / "users.ndjson.gz"
    path.write_bytes(gzip.compress(lines(2500)))
    environment = environment_of(ingest, database)
    ended = await run(environment, "import", "recipients", str(path))
    assert ended.code == 1
    assert "line 100, locale: give a language tag, like tr or tr-TR" in ended.stdout
    assert "and 5 more: GET /internal/v1/imports/imp_" in ended.stdout
    assert "FINISHED: 2500 lines, 2475 accepted, 25 rejected" in ended.stdout

    path.write_bytes(lines(99))
    good = await run(environment, "import", "recipients", str(path), "--json")
    assert good.code == 0
    answer = orjson.loads(good.stdout)
    assert (answer["state"], answer["accepted"], answer["errors"]) == ("FINISHED", 99, [])


async def test_what_stopped_goes_on_where_it_was(ingest: Ingest, database: str, tmp_path: Path) -> None:
    path = tmp_path / "users.ndjson"
    environment = environment_of(ingest, database)
    begun = (await ingest.client.post("/internal/v1/imports/recipients", content=b"")).json()["importId"]
    await ingest.pool.execute("UPDATE ulak.import_runs SET lines = 60, accepted = 60")
    path.write_bytes(lines(99))
    ended = await run(environment, "import", "recipients", str(path), "--run", begun, "--json")
    assert ended.code == 0
    assert orjson.loads(ended.stdout)["accepted"] == 99
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 39, "lines 61 to 99"

    again = await run(environment, "import", "recipients", str(path), "--run", begun)
    assert again.code == 1
    assert "is FINISHED with 99 lines: leave --run out" in again.stderr
    other = (await ingest.client.post("/internal/v1/imports/consents", content=b"")).json()["importId"]
    wrong = await run(environment, "import", "recipients", str(path), "--run", other)
    assert "is an import of consents, not of recipients" in wrong.stderr


async def test_it_says_how_to_go_on(ingest: Ingest, database: str, tmp_path: Path) -> None:
    path = tmp_path / "users.ndjson.gz"
    path.write_bytes(gzip.compress(lines(50))[:-20])
    ended = await run(environment_of(ingest, database), "import", "recipients", str(path))
    assert ended.code == 1
    assert "not whole gzip" in ended.stderr
    assert f"To go on: ulak import recipients {path} --run imp_" in ended.stderr


async def test_an_interrupted_one_says_how_to_go_on_and_does(ingest: Ingest, database: str, tmp_path: Path) -> None:
    path = tmp_path / "users.ndjson"
    path.write_bytes(
        b"".join(line + b" " * 4096 + b"\n" for line in lines(9000).splitlines())
    )  # more than sockets hold
    environment = environment_of(ingest, database)
    child = await start(environment, "import", "recipients", str(path))

    async def begun() -> bool:
        return bool(await ingest.pool.fetchval("SELECT lines > 0 FROM ulak.import_runs"))

    await until(begun, seconds=60)
    child.send_signal(signal.SIGINT)
    ended = await end_of(child)
    assert (ended.code, "stopped: what was taken stays" in ended.stderr) == (1, True), ended.stderr
    found = re.search(r"--run (imp_\w+)", ended.stderr)
    assert found is not None

    async def free() -> bool:
        return not await ingest.pool.fetchval("SELECT stream IS NOT NULL FROM ulak.import_runs")

    await until(free)
    assert await ingest.pool.fetchval("SELECT lines < 9000 AND state = 'RUNNING' FROM ulak.import_runs")
    again = await run(environment, "import", "recipients", str(path), "--run", found[1], "--json")
    answer = orjson.loads(again.stdout)
    assert (answer["state"], answer["lines"], answer["accepted"]) == ("FINISHED", 9000, 8910)
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 8910
