"""`ulak templates push` and `ulak users push` against a real database, as a person runs them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shared.core.address import target_key
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.runtime.keyring import ring_json

pytestmark = pytest.mark.postgres

SAMPLE = Path("ops/demo/sample")
ROOT = Path(__file__).parents[3]

Ulak = Callable[..., tuple[int, Any]]


@pytest.fixture
def ulak(database: str, key_ring: KeyRing) -> Ulak:
    def run(module: str, *arguments: str) -> tuple[int, Any]:
        finished = subprocess.run(
            [sys.executable, "-c", f"from ops.cli.{module} import app; app()", *arguments, "--json"],
            cwd=ROOT,
            env={**os.environ, "ULAK_POSTGRES_DSN": database, "ULAK_KEY_RING": ring_json(key_ring).decode()},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return finished.returncode, json.loads(finished.stdout) if finished.stdout else finished.stderr

    return run


def query(database: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database) as connection:
        return connection.execute(sql.encode()).fetchall()


def test_the_sample_catalogue_twice_and_then_changed(ulak: Ulak, database: str, tmp_path: Path) -> None:
    code, first = ulak("templates", "push", str(SAMPLE / "catalogue"))
    assert (code, first["problems"]) == (0, [])
    assert {change["action"] for change in first["changes"]} == {"created"}
    assert first["smsSegments"]["OTP SMS tr"] == {"encoding": "UCS2", "segments": 1}

    _, second = ulak("templates", "push", str(SAMPLE / "catalogue"))
    assert {change["action"] for change in second["changes"]} == {"unchanged"}

    catalogue = tmp_path / "catalogue"
    shutil.copytree(ROOT / SAMPLE / "catalogue", catalogue)
    (catalogue / "templates/OTP/sms.tr.yaml").write_text('text: "Kod: {{ code }}"\n', encoding="utf-8")
    _, dry = ulak("templates", "push", str(catalogue), "--dry-run")
    _, third = ulak("templates", "push", str(catalogue))
    for answer in (dry, third):
        assert [
            (change["name"], change["action"], change["version"])
            for change in answer["changes"]
            if change["action"] != "unchanged"
        ] == [("OTP SMS tr", "updated", 2)]
    versions = query(
        database, "SELECT version, active FROM ulak.templates WHERE type = 'OTP' AND locale = 'tr' ORDER BY 1"
    )
    assert versions == [(1, False), (2, True)]


def test_a_mistake_changes_nothing(ulak: Ulak, database: str, tmp_path: Path) -> None:
    catalogue = tmp_path / "catalogue"
    shutil.copytree(ROOT / SAMPLE / "catalogue", catalogue)
    (catalogue / "templates/OTP/sms.tr.yaml").write_text("text: '{{ code|safe }}'\n", encoding="utf-8")
    code, answer = ulak("templates", "push", str(catalogue))
    assert code == 1
    assert [problem["file"] for problem in answer["problems"]] == ["templates/OTP/sms.tr.yaml"]
    assert query(database, "SELECT count(*) FROM ulak.notification_types") == [(0,)]


def test_a_source_of_another_application_is_refused(ulak: Ulak, database: str, tmp_path: Path) -> None:
    ulak("templates", "push", str(SAMPLE / "catalogue"))
    other = tmp_path / "other.yaml"
    other.write_text("applications: {other: {sources: [/shop/orders]}}\n")
    code, _ = ulak("templates", "push", str(other))
    assert code == 1
    assert query(database, "SELECT name FROM ulak.applications") == [("shop",)]


def test_the_sample_users_twice(ulak: Ulak, database: str, key_ring: KeyRing) -> None:
    code, first = ulak("users", "push", str(SAMPLE / "users.yaml"))
    assert (code, first["created"], first["devices"]) == (0, 2, 3)
    _, second = ulak("users", "push", str(SAMPLE / "users.yaml"))
    assert (second["created"], second["updated"]) == (0, 2)
    ((key, sealed),) = query(database, "SELECT email_key, email_sealed FROM ulak.recipients WHERE external_id = '7'")
    assert key == target_key(key_ring, "EMAIL", "ayse@example.com")
    assert open_sealed(key_ring, Purpose.ADDRESS, key, sealed) == b"ayse@example.com"
    assert query(database, "SELECT count(*) FROM ulak.devices WHERE active") == [(3,)]
    assert query(database, "SELECT category, channel, enabled FROM ulak.user_preferences") == [
        ("TRANSACTIONAL", "PUSH", False)
    ]


def test_what_a_file_does_not_say_stays(ulak: Ulak, database: str, tmp_path: Path) -> None:
    ulak("users", "push", str(SAMPLE / "users.yaml"))
    change = tmp_path / "change.ndjson"
    change.write_text('{"userId": "7", "locale": "en"}\n')
    ulak("users", "push", str(change))
    assert query(
        database, "SELECT locale, time_zone, email_key IS NOT NULL FROM ulak.recipients WHERE external_id = '7'"
    ) == [("en", "Europe/Istanbul", True)]
