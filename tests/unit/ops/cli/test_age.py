"""Spans of time as they are typed."""

from datetime import timedelta

import pytest

from ops.cli.age import parse_age


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
