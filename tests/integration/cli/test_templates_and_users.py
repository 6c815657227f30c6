"""`ulak templates push` and `ulak users push` against a real database, as a person runs them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from psycopg.rows import dict_row

from shared.core.address import target_key
from shared.core.ports import DkimKey, SenderProfile
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.core.sender import StoredProfile, open_profile
from shared.postgres.catalogue import stored_profile
from shared.runtime.keyring import ring_json

pytestmark = pytest.mark.postgres

SAMPLE = Path("ops/demo/sample")
ROOT = Path(__file__).parents[3]

Ulak = Callable[..., tuple[int, Any]]


@pytest.fixture
def ulak(database: str, key_ring: KeyRing) -> Ulak:
    """Runs a command; ring: another key ring than the test's, None for none."""

    def run(module: str, *arguments: str, ring: KeyRing | None = key_ring) -> tuple[int, Any]:
        keys = {} if ring is None else {"ULAK_KEY_RING": ring_json(ring).decode()}
        finished = subprocess.run(
            [sys.executable, "-c", f"from ops.cli.{module} import app; app()", *arguments, "--json"],
            cwd=ROOT,
            env={**os.environ, "ULAK_POSTGRES_DSN": database, **keys},
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
    code, first = ulak("templates.commands", "push", str(SAMPLE / "catalogue"))
    assert (code, first["problems"]) == (0, [])
    assert {change["action"] for change in first["changes"]} == {"created"}
    assert first["smsSegments"]["OTP SMS tr"] == {
        "encoding": "UCS2",
        "segments": 1,
        "left": 19,
        "worst": 1,
        "worstLeft": 15,
    }

    _, second = ulak("templates.commands", "push", str(SAMPLE / "catalogue"))
    assert {change["action"] for change in second["changes"]} == {"unchanged"}

    catalogue = tmp_path / "catalogue"
    shutil.copytree(ROOT / SAMPLE / "catalogue", catalogue)
    (catalogue / "templates/OTP/sms.tr.yaml").write_text('text: "Kod: {{ code }}"\n', encoding="utf-8")
    _, dry = ulak("templates.commands", "push", str(catalogue), "--dry-run")
    _, third = ulak("templates.commands", "push", str(catalogue))
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
    code, answer = ulak("templates.commands", "push", str(catalogue))
    assert code == 1
    assert [problem["file"] for problem in answer["problems"]] == ["templates/OTP/sms.tr.yaml"]
    assert query(database, "SELECT count(*) FROM ulak.notification_types") == [(0,)]


def test_a_source_of_another_application_is_refused(ulak: Ulak, database: str, tmp_path: Path) -> None:
    ulak("templates.commands", "push", str(SAMPLE / "catalogue"))
    other = tmp_path / "other.yaml"
    other.write_text("applications: {other: {sources: [/shop/orders]}}\n")
    code, _ = ulak("templates.commands", "push", str(other))
    assert code == 1
    assert query(database, "SELECT name FROM ulak.applications") == [("shop",)]


SENDERS = """
senders: {{orders: {{from: Shop <{address}>, dkim: {{domain: shop.example, selector: s1, keyFile: key.pem}}}}}}
types: {{T: {{category: TRANSACTIONAL, channels: [EMAIL], ttl: 1h, sender: orders}}}}
"""


def stored_sender(database: str) -> StoredProfile:
    with psycopg.connect(database, row_factory=dict_row) as connection:
        row = connection.execute(
            "SELECT p.* FROM ulak.notification_types t JOIN ulak.sender_profiles p ON p.name = t.sender_profile"
        ).fetchone()
    assert row is not None
    return stored_profile(row)


def test_senders_key_is_stored_sealed_and_follows_the_rotation(
    ulak: Ulak, database: str, key_ring: KeyRing, tmp_path: Path
) -> None:
    pem = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "key.pem").write_bytes(pem)
    file = tmp_path / "all.yaml"

    def push(ring: KeyRing | None = key_ring, address: str = "orders@shop.example") -> str:
        file.write_text(SENDERS.format(address=address))
        code, answer = ulak("templates.commands", "push", str(file), ring=ring)
        assert code == 0, answer
        assert "PRIVATE" not in json.dumps(answer)
        return next(str(change["action"]) for change in answer["changes"] if change["kind"] == "sender")

    def expected(address: str) -> SenderProfile:
        return SenderProfile(address, "Shop", dkim=DkimKey("shop.example", "s1", pem))

    assert [push(), push()] == ["created", "unchanged"]
    assert open_profile(stored_sender(database), key_ring) == expected("orders@shop.example")

    assert push(address="sales@shop.example") == "updated"
    rotated = replace(key_ring, active="k-next", keys={**key_ring.keys, "k-next": b"n" * 32})
    assert [push(rotated, "sales@shop.example"), push(rotated, "sales@shop.example")] == ["updated", "unchanged"]
    only_new = replace(rotated, keys={"k-next": b"n" * 32})
    assert open_profile(stored_sender(database), only_new) == expected("sales@shop.example")

    lost = replace(only_new, active="k-last", keys={"k-last": b"o" * 32}, lost=frozenset({"k-next"}))
    assert push(lost, "sales@shop.example") == "updated"
    assert open_profile(stored_sender(database), lost) == expected("sales@shop.example")


def test_senders_key_needs_a_ring(ulak: Ulak, database: str, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(
        rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    (tmp_path / "all.yaml").write_text(SENDERS.format(address="orders@shop.example"))
    code, said = ulak("templates.commands", "push", str(tmp_path / "all.yaml"), ring=None)
    assert code == 1
    assert "ulak keys new" in said
    assert query(database, "SELECT count(*) FROM ulak.sender_profiles") == [(0,)]


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


def test_what_a_push_would_change_is_told_line_by_line(ulak: Ulak, tmp_path: Path) -> None:
    catalogue = tmp_path / "catalogue"
    shutil.copytree(ROOT / SAMPLE / "catalogue", catalogue)
    code, answer = ulak("templates.commands", "diff", str(catalogue))
    assert (code, answer["same"], {entry["new"] for entry in answer["differences"]}) == (1, False, {True})
    ulak("templates.commands", "push", str(catalogue))
    assert ulak("templates.commands", "diff", str(catalogue)) == (
        0,
        {"same": True, "problems": [], "differences": []},
    )

    (catalogue / "templates/OTP/sms.tr.yaml").write_text('text: "Kod: {{ code }}"\n', encoding="utf-8")
    shop = (catalogue / "shop.yaml").read_text("utf-8")
    (catalogue / "shop.yaml").write_text(shop.replace("ttl: 180s", "ttl: 120s"), encoding="utf-8")
    code, answer = ulak("templates.commands", "diff", str(catalogue))

    assert (code, [(entry["kind"], entry["name"]) for entry in answer["differences"]]) == (
        1,
        [("type", "OTP"), ("template", "OTP SMS tr")],
    )
    assert [line for line in answer["differences"][0]["diff"] if line[:1] in "+-"] == [
        "-ttlSeconds: 180",
        "+ttlSeconds: 120",
    ]


def test_what_a_version_says_and_costs(ulak: Ulak, database: str, tmp_path: Path) -> None:
    catalogue = tmp_path / "catalogue"
    shutil.copytree(ROOT / SAMPLE / "catalogue", catalogue)
    ulak("templates.commands", "push", str(catalogue))
    (catalogue / "templates/OTP/sms.tr.yaml").write_text('text: "Kod: {{ code }}"\n', encoding="utf-8")
    ulak("templates.commands", "push", str(catalogue))

    code, active = ulak("templates.commands", "preview", "OTP", "sms", "tr", "--param", "code=012345")
    assert (code, active["version"], active["content"]) == (0, 2, {"text": "Kod: 012345"})
    assert active["sms"] == {"encoding": "GSM7", "segments": 1, "left": 149, "worst": 1, "worstLeft": 145}
    assert (active["errors"], active["warnings"]) == ([], [])

    _, first = ulak("templates.commands", "preview", "OTP", "SMS", "tr", "--version", "1")
    assert (first["version"], first["sms"]["encoding"]) == (1, "UCS2")
    code, said = ulak("templates.commands", "preview", "OTP", "SMS", "tr", "--version", "3")
    assert (code, "there is no version 3 of OTP SMS tr" in said) == (1, True)
    assert ulak("templates.commands", "preview", "OTP", "SMS", "tr", "--param", "code")[0] == 2


def test_marketing_by_the_profile_of_a_country(ulak: Ulak, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sale.yaml"
    file.write_text(
        "types: {SALE: {category: MARKETING, channels: [SMS], ttl: 1h}}\n"
        "templates: {SALE: {sms.en: {text: 'Sale! STOP to 12345'}}}\n"
    )
    found = {}
    for profile in ("TR", "EU", "NONE"):
        monkeypatch.setenv("ULAK_DEFAULT_MARKETING_PROFILE", profile)
        _, answer = ulak("templates.commands", "push", str(file), "--dry-run")
        found[profile] = len(answer["problems"])
    assert found == {"TR": 1, "EU": 0, "NONE": 0}


def test_versions_and_the_way_back(ulak: Ulak, database: str, tmp_path: Path) -> None:
    catalogue = tmp_path / "catalogue"
    shutil.copytree(ROOT / SAMPLE / "catalogue", catalogue)
    ulak("templates.commands", "push", str(catalogue))
    (catalogue / "templates/OTP/sms.tr.yaml").write_text('text: "Kod: {{ code }}"\n', encoding="utf-8")
    ulak("templates.commands", "push", str(catalogue))

    code, back = ulak("templates.commands", "rollback", "OTP", "sms", "tr")

    assert (code, back["version"], back["active"]) == (0, 1, True)
    _, listed = ulak("templates.commands", "versions", "OTP", "SMS", "tr")
    assert [(entry["version"], entry["active"]) for entry in listed["versions"]] == [(2, False), (1, True)]
    assert ulak("templates.commands", "rollback", "OTP", "SMS", "tr")[0] == 1
    assert ulak("templates.commands", "rollback", "OTP", "SMS", "tr", "--to", "2")[1]["version"] == 2
    assert ulak("templates.commands", "versions", "OTP", "SMS", "xx")[0] == 1
    assert query(
        database, "SELECT action, key FROM ulak.audit_log ORDER BY id OFFSET (SELECT count(*) - 3 FROM ulak.audit_log)"
    ) == [
        ("updated", "OTP SMS tr"),
        ("rolled_back", "OTP SMS tr v1"),
        ("rolled_back", "OTP SMS tr v2"),
    ]
