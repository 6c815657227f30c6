"""`ulak pause`, `resume` and `pauses` against a real database; fixture: database."""

import json
from typing import Any
from uuid import UUID

import psycopg
import pytest
from typer.testing import CliRunner, Result

from ops.cli.errors import CommandError
from ops.cli.main import build
from shared.core.identifier import API_KEY, new_id, public_id

pytestmark = pytest.mark.postgres


class Operator:
    """Types stop buttons."""

    def __init__(self, database: str) -> None:
        self.database = database

    def types(self, *arguments: str, ends_with: int = 0) -> Result:
        result = CliRunner().invoke(
            build(arguments[0]), list(arguments), env={"ULAK_POSTGRES_DSN": self.database, "COLUMNS": "400"}
        )
        if isinstance(result.exception, CommandError):
            raise result.exception
        assert result.exit_code == ends_with, result.output
        return result

    def refused(self, *arguments: str) -> str:
        with pytest.raises(CommandError) as refusal:
            self.types(*arguments)
        return str(refusal.value)

    def pauses(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self.types("pauses", "--json").stdout)["pauses"]
        return listed

    def execute(self, statement: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.database, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def operator(database: str) -> Operator:
    return Operator(database)


@pytest.fixture
def sale(operator: Operator) -> str:
    operator.execute(
        "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds)"
        " VALUES ('SALE', 'MARKETING', 2, '{PUSH}', 3600), ('NEWS', 'MARKETING', 3, '{EMAIL}', 3600)"
    )
    return "SALE"


def test_who_when_and_why_is_told_and_how_much_waits(operator: Operator, sale: str) -> None:
    operator.types("pause", "type", sale, "--reason", "wrong price")
    (paused,) = operator.pauses()
    assert (paused["kind"], paused["name"], paused["reason"], paused["waiting"]) == ("type", sale, "wrong price", 0)
    assert paused["pausedBy"].startswith("operator")
    operator.execute(
        "INSERT INTO ulak.deferred (due_at, kind, notification_id, channel, target_key, pause_id)"
        " SELECT now(), 'delivery', ulak.uuidv7(), 'PUSH', '', id FROM ulak.pauses"
    )
    shown = operator.types("pauses").output
    assert all(word in shown for word in ("type SALE", "wrong price", paused["pausedBy"], "paused", "1"))


def test_each_change_is_in_the_audit_log(operator: Operator, sale: str) -> None:
    operator.types("pause", "type", sale, "--reason", "wrong price")
    operator.types("pause", "type", sale, "--reason", "again")
    operator.types("resume", "type", sale, "--per-second", "50")
    lines = operator.execute("SELECT action, kind, key, detail->>'note' FROM ulak.audit_log ORDER BY id")
    assert lines == [("paused", "pause", "type SALE", "wrong price"), ("resumed", "pause", "type SALE", None)]
    assert operator.execute("SELECT release_per_second FROM ulak.pauses") == [(50.0,)]


def test_what_is_paused_already_stays_as_it_is(operator: Operator, sale: str) -> None:
    operator.types("pause", "type", sale, "--reason", "wrong price")
    again = operator.types("pause", "type", sale, "--reason", "another").output
    assert "paused already" in again
    assert "wrong price" in again
    assert len(operator.pauses()) == 1


def test_a_resumed_one_is_listed_until_nothing_waits_and_may_be_paused_anew(operator: Operator, sale: str) -> None:
    operator.types("pause", "type", sale, "--reason", "wrong price")
    operator.types("resume", "type", sale)
    (letting_go,) = operator.pauses()
    assert letting_go["resumedBy"].startswith("operator")
    operator.types("pause", "type", sale, "--reason", "again")
    assert [each["resumedAt"] is None for each in operator.pauses()] == [False, True]
    operator.execute("UPDATE ulak.pauses SET ended_at = now() WHERE resumed_at IS NOT NULL")
    assert len(operator.pauses()) == 1


def test_nothing_paused_says_so(operator: Operator) -> None:
    assert operator.types("pauses").output == "Nothing is paused.\n"


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("lane", "push-bluk", "push-bulk"),
        ("type", "SAIL", "NEWS, SALE"),
        ("provider", "twillio", "twilio"),
        ("template", "SALE/PUSH/tr/9", "SALE/PUSH/tr/1"),
        ("template", "SAIL/PUSH/tr/1", "NEWS, SALE"),
        ("api-key", public_id(API_KEY, UUID(int=7)), "is none"),
    ],
)
def test_an_unknown_name_is_refused_with_those_there_are(
    operator: Operator, sale: str, kind: str, name: str, told: str
) -> None:
    operator.execute(
        "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active, state,"
        " prepared) VALUES (%s, 'PUSH', 'tr', 1, '{}', '{}', '', true, 'published', '{}')",
        sale,
    )
    refusal = operator.refused("pause", kind, name, "--reason", "because")
    assert "There is no" in refusal
    assert told in refusal
    assert operator.pauses() == []


@pytest.mark.parametrize(("kind", "name"), [("lane", "otp-sms"), ("provider", "smtp")])
def test_lanes_and_providers_need_no_rows_to_be_known(operator: Operator, kind: str, name: str) -> None:
    operator.types("pause", kind, name, "--reason", "because")
    assert [each["name"] for each in operator.pauses()] == [name]


def test_a_key_is_named_as_lists_show_it(operator: Operator) -> None:
    key = new_id()
    operator.execute("INSERT INTO ulak.applications (name) VALUES ('shop')")
    operator.execute(
        "INSERT INTO ulak.api_keys (id, application_id, name, secret_hash, kind, scopes)"
        " SELECT %s, id, 'looping', '\\x01', 'live', '{}' FROM ulak.applications",
        key,
    )
    operator.types("pause", "api-key", public_id(API_KEY, key), "--reason", "it loops")
    assert operator.execute("SELECT kind, key FROM ulak.pauses") == [("api_key", str(key))]
    assert operator.pauses()[0]["name"] == public_id(API_KEY, key)
    operator.types("resume", "api-key", public_id(API_KEY, key))
    assert "take it from" in operator.refused("resume", "api-key", "key_no")


def test_login_codes_are_stopped_by_their_lane_alone(operator: Operator) -> None:
    assert "ulak pause lane otp-sms" in operator.refused("pause", "type", "OTP", "--reason", "because")


def test_resuming_what_is_not_paused_names_what_is(operator: Operator, sale: str) -> None:
    operator.types("pause", "type", sale, "--reason", "because")
    refusal = operator.refused("resume", "type", "NEWS")
    assert "is not paused" in refusal
    assert "type SALE" in refusal


def test_a_pause_needs_a_reason(operator: Operator, sale: str) -> None:
    operator.types("pause", "type", sale, ends_with=2)
    assert "--reason" in operator.refused("pause", "type", sale, "--reason", "  ")
