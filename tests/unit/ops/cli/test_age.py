"""Spans of time, and points in it, as operators type them."""

from datetime import UTC, datetime, timedelta

import pytest
import typer

from ops.cli.age import Moment, parse_age

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("30m", timedelta(minutes=30)),
        ("12h", timedelta(hours=12)),
        ("90d", timedelta(days=90)),
        (" 4w ", timedelta(weeks=4)),
    ],
)
def test_ages(text: str, age: timedelta) -> None:
    assert parse_age(text) == age


@pytest.mark.parametrize("text", ["", "5", "0d", "1y", "-1d", "99999d", "1.5h"])
def test_wrong_ages_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="90d"):
        parse_age(text)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("30m", NOW - timedelta(minutes=30)),
        ("2h", NOW - timedelta(hours=2)),
        ("2026-01-15T13:00:00+03:00", NOW - timedelta(hours=2)),
        ("2026-01-15T11:59:59Z", NOW - timedelta(seconds=1)),
    ],
)
def test_moments(text: str, at: datetime) -> None:
    assert Moment.parse(text).seen_from(NOW) == at


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-15T09:30:00", "2026-01-15"])
def test_what_is_none_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"2026-01-15T09:30:00\+03:00"):
        Moment.parse(text)
