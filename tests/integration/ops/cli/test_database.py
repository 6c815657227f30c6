"""`ulak db` as it is typed."""

import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from ops.cli.database import app
from ops.cli.errors import CommandError

pytestmark = pytest.mark.postgres

Command = Callable[..., Result]


@pytest.fixture
def ulak_db(database: str) -> Command:
    def run(*arguments: str, dsn: str = database) -> Result:
        return CliRunner().invoke(app, list(arguments), env={"ULAK_POSTGRES_DSN": dsn}, catch_exceptions=False)

    return run


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)


def test_migrate_again_has_nothing_to_do(ulak_db: Command) -> None:
    result = ulak_db("migrate")
    assert result.exit_code == 0
    assert "nothing to do" in result.output
    assert as_json(ulak_db("migrate", "--json", "--days-back", "3"))["partitions"]


def test_check_names_what_is_wrong_and_exits_1(ulak_db: Command, database: str) -> None:
    findings = {finding["subject"]: finding for finding in as_json(ulak_db("check", "--json"))["findings"]}
    assert findings["reachable"]["ok"]
    assert findings["schema"]["ok"]
    assert findings["partitions"]["ok"]
    with psycopg.connect(database) as connection:
        connection.execute(f"DROP TABLE ulak.contents_{datetime.now(UTC):%Y%m%d}".encode())
    result = ulak_db("check")
    assert result.exit_code == 1
    assert "ulak db partitions" in " ".join(result.output.split())


def test_check_of_a_server_that_is_not_there_is_a_finding(ulak_db: Command) -> None:
    result = ulak_db("check", "--json", dsn="postgresql://ulak:s3cret@127.0.0.1:1/ulak")
    assert result.exit_code == 1
    assert "s3cret" not in result.output
    [finding] = as_json(result)["findings"]
    assert (finding["subject"], finding["ok"]) == ("reachable", False)


def test_partitions_are_created_and_old_ones_dropped(ulak_db: Command) -> None:
    ulak_db("migrate", "--days-back", "4")
    today = datetime.now(UTC).date()
    result = as_json(ulak_db("partitions", "--ahead", "8", "--drop-older-than", "2", "--json"))
    assert len(result["created"]) == 4
    assert len(result["dropped"]) == 8
    assert result["held"] == []
    assert as_json(ulak_db("partitions", "--json")) == {"created": [], "dropped": [], "held": []}
    assert f"deliveries_{today - timedelta(days=3):%Y%m%d}" in result["dropped"]


def test_partitions_before_a_migration_names_it(ulak_db: Command, postgres_server: str) -> None:
    with pytest.raises(CommandError, match="ulak db migrate"):
        ulak_db("partitions", dsn=postgres_server)


def test_audit_exits_1_when_it_finds_something(ulak_db: Command, database: str) -> None:
    assert ulak_db("audit").exit_code == 0
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO ulak.contents VALUES (ulak.uuidv7(), 'SMS', NULL, 'otp-v1', 'tr', 1)")
    assert "content" in ulak_db("audit").output
    result = ulak_db("audit", "--json")
    assert result.exit_code == 1
    [finding] = as_json(result)["findings"]
    assert finding["rule"] == "content_without_notification"
    assert finding["sample"][0].startswith("ntf_")


def test_a_setting_that_is_missing_is_named() -> None:
    result = CliRunner().invoke(app, ["check"], env={"ULAK_POSTGRES_DSN": f"mysql://{secrets.token_hex(4)}"})
    assert result.exit_code == 2
    assert "ULAK_POSTGRES_DSN" in result.output
