"""What `ulak templates push` warns of: channels that a type reaches without a word to say there."""

from datetime import timedelta

import pytest

from ops.cli.templates.push import unsaid
from shared.core.catalogue import Catalogue, NotificationType, Template
from shared.wire.channel import Category, MessageClass

NOTHING = Catalogue([], [], [])


def kind(*channels: str, fallback: tuple[str, ...] = ()) -> NotificationType:
    return NotificationType(
        "T", Category.TRANSACTIONAL, MessageClass.TX, channels, timedelta(hours=1), fallback_channels=fallback
    )


@pytest.mark.parametrize(
    ("entry", "spoken", "warnings"),
    [
        pytest.param(kind("PUSH"), {("T", "PUSH")}, [], id="nothing-lacks"),
        pytest.param(
            kind("PUSH", fallback=("EMAIL",)),
            {("T", "PUSH")},
            ["T falls back to EMAIL and has no template for it"],
            id="fallback",
        ),
        pytest.param(
            kind("PUSH", "EMAIL", fallback=("EMAIL",)),
            {("T", "PUSH")},
            ["T goes to EMAIL and has no template for it"],
            id="once",
        ),
        pytest.param(kind("SMS"), {("U", "SMS")}, ["T goes to SMS and has no template for it"], id="another-type-s"),
    ],
)
def test_warnings(entry: NotificationType, spoken: set[tuple[str, str]], warnings: list[str]) -> None:
    assert list(unsaid([entry], spoken, NOTHING)) == warnings


def test_words_that_are_in_the_database_count() -> None:
    known = Catalogue([kind("SMS")], [Template("T", "SMS", "tr", 1, {"text": "a"}, frozenset())], [])
    assert list(unsaid([kind("SMS")], set(), known)) == []
