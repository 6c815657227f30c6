"""`ulak consents` against a real database; fixtures: database, pool, key_ring."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from shared.core.address import target_key
from shared.core.consent import Line, Source
from shared.core.identifier import CONSENT, new_id, public_id
from shared.core.sealing import KeyRing
from shared.postgres.consent import append
from shared.postgres.pool import Pool
from shared.runtime.keyring import ring_json

pytestmark = pytest.mark.postgres


def ulak(database: str, ring: KeyRing, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"ULAK_POSTGRES_DSN": database, "ULAK_KEY_RING": ring_json(ring).decode()}
    return subprocess.run(
        [sys.executable, "-m", "ops.cli", "consents", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
async def lines(pool: Pool, key_ring: KeyRing) -> list[Line]:
    """Two refused by the registry with different codes, one that waits."""
    made = [
        Line(
            id=new_id(),
            subject=target_key(key_ring, "EMAIL", f"user{number}@example.com"),
            channel="EMAIL",
            granted=True,
            at=datetime.now(UTC) - timedelta(days=1),
            source=Source.HS_WEB,
            address=f"user{number}@example.com",
            evidence=f"form {number}",
        )
        for number in range(3)
    ]
    async with pool.acquire() as connection, connection.transaction():
        await append(connection, key_ring, made)
    for line, code in zip(made, ("H155", "H114"), strict=False):
        await pool.execute(
            "UPDATE ulak.iys_records SET state = 'REJECTED', code = $2, detail = 'recipient: yok'"
            " WHERE consent_id = $1",
            line.id,
            code,
        )
    return made


async def test_status_counts_and_names_refusals(database: str, key_ring: KeyRing, lines: list[Line]) -> None:
    told = json.loads(ulak(database, key_ring, "status", "--json").stdout)
    assert told["records"] == {"PENDING": 1, "REJECTED": 2}
    assert {entry["code"] for entry in told["refused"]} == {"H114", "H155"}
    shown = ulak(database, key_ring, "status")
    assert shown.returncode == 0, shown.stderr
    assert public_id(CONSENT, lines[0].id) in shown.stdout
    assert "example.com" not in shown.stdout


async def test_refused_ones_are_told_again(database: str, key_ring: KeyRing, pool: Pool, lines: list[Line]) -> None:
    by_code = ulak(database, key_ring, "iys", "retry", "--code", "H155", "--json")
    assert json.loads(by_code.stdout) == {"retried": 1}
    again = ulak(database, key_ring, "iys", "retry", "--code", "H155")
    assert (again.returncode, "none of these was refused" in again.stderr) == (1, True)
    by_id = ulak(database, key_ring, "iys", "retry", public_id(CONSENT, lines[1].id))
    assert by_id.stdout == "1 consent will be told again.\n"
    assert await pool.fetchval("SELECT count(*) FROM ulak.iys_records WHERE state = 'PENDING'") == 3
    assert ulak(database, key_ring, "iys", "retry").stdout.startswith("Nothing to do")
    assert ulak(database, key_ring, "iys", "retry", "nonsense").returncode == 2


async def test_the_export_has_every_line_in_the_clear(database: str, key_ring: KeyRing, lines: list[Line]) -> None:
    exported = ulak(database, key_ring, "export")
    found = [json.loads(text) for text in exported.stdout.splitlines()]
    assert [(entry["address"], entry["evidence"]) for entry in found] == [
        (f"user{number}@example.com", f"form {number}") for number in range(3)
    ]
    rest = ulak(database, key_ring, "export", "--after", public_id(CONSENT, lines[1].id))
    assert len(rest.stdout.splitlines()) == 1
