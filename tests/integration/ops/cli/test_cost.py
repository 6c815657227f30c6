"""`ulak cost` against a real database; fixture: database."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from ops.cli.errors import CommandError
from ops.cli.main import build
from shared.core.identifier import lowest_id_at

pytestmark = pytest.mark.postgres

NOW = datetime.now(UTC)
TODAY, YESTERDAY = NOW, NOW - timedelta(days=1)
Sent = tuple[datetime, str, str, int | None, int | None, str | None, str]

SENT: list[Sent] = [
    (TODAY, "ORDER_SHIPPED", "twilio", 2, 15_800, "USD", "live"),
    (TODAY, "ORDER_SHIPPED", "twilio", 1, 7_900, "USD", "live"),
    (TODAY, "ORDER_SHIPPED", "netgsm", 1, 21_000, "TRY", "live"),
    (YESTERDAY, "SALE", "netgsm", 3, 63_000, "TRY", "live"),
    (YESTERDAY, "SALE", "netgsm", 1, None, None, "live"),
    (YESTERDAY, "SALE", "netgsm", None, None, None, "live"),  # not taken
    (TODAY, "SALE", "simulated", 9, 9_000_000, "USD", "test"),
]


@pytest.fixture
def spent(database: str) -> str:
    with psycopg.connect(database, autocommit=True) as connection:
        for place, (at, type_name, provider, segments, micros, currency, mode) in enumerate(SENT):
            # uuid of the moment, told apart by its last digits
            notification_id = str(lowest_id_at(at))[:-4] + f"{place:04x}"
            connection.execute(
                "INSERT INTO ulak.notifications (id, application_id, event_id, type, message_class, mode, state,"
                " expires_at, created_at) VALUES (%s, 1, %s, %s, 1, %s, 'DECIDED', %s, %s)",
                (notification_id, str(place), type_name, mode, at, at),
            )
            connection.execute(
                "INSERT INTO ulak.deliveries (notification_id, channel, target_key, status, message_class, promise,"
                " mode, next_attempt_at, expires_at, created_at, updated_at, provider, segments, price_micros,"
                " price_currency) VALUES"
                " (%s, 'SMS', %s, 'SENT', 1, 'AT_MOST_ONCE', %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                (notification_id, b"t", mode, at, at, at, at, provider, segments, micros, currency),
            )
    return database


def told(database: str, *arguments: str) -> str:
    result = CliRunner().invoke(
        build("cost"), ["cost", *arguments], env={"ULAK_POSTGRES_DSN": database, "COLUMNS": "200"}
    )
    if isinstance(result.exception, CommandError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def costs(database: str, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(told(database, *arguments, "--json"))["costs"]
    return found


def test_cost_per_type_in_each_currency(spent: str) -> None:
    assert costs(spent, "--last", "7d") == [
        {"type": "ORDER_SHIPPED", "messages": 1, "segments": 1, "price": "0.021", "currency": "TRY"},
        {"type": "ORDER_SHIPPED", "messages": 2, "segments": 3, "price": "0.0237", "currency": "USD"},
        {"type": "SALE", "messages": 1, "segments": 3, "price": "0.063", "currency": "TRY"},
        {"type": "SALE", "messages": 1, "segments": 1, "price": None, "currency": None},
    ]


def test_by_day_and_provider(spent: str) -> None:
    found = costs(spent, "--last", "7d", "--by", "provider", "--by", "day")
    assert [(row["day"], row["provider"], row["price"]) for row in found] == [
        (str(YESTERDAY.date()), "netgsm", "0.063"),
        (str(YESTERDAY.date()), "netgsm", None),
        (str(TODAY.date()), "netgsm", "0.021"),
        (str(TODAY.date()), "twilio", "0.0237"),
    ]


def test_a_shorter_time_holds_less(spent: str) -> None:
    assert {row["type"] for row in costs(spent, "--last", "12h")} == {"ORDER_SHIPPED"}


def test_as_a_table(spent: str) -> None:
    lines = told(spent, "--last", "7d").splitlines()
    assert lines[0].split() == ["type", "messages", "segments", "price"]
    assert lines[2].split() == ["ORDER_SHIPPED", "2", "3", "0.0237", "USD"]
    assert lines[4].split() == ["SALE", "1", "1", "not", "known"]


def test_nothing_spent_is_said(database: str) -> None:
    assert told(database) == "No SMS was taken by a provider in the last 30d.\n"
    assert costs(database) == []


def test_a_time_that_cannot_be_read_says_how(database: str) -> None:
    with pytest.raises(CommandError, match="--last: give minutes, hours"):
        told(database, "--last", "yesterday")
