"""Numbers and spans in words."""

import pytest

from ops.cli.text import COUNTED_AT_MOST, count, number, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (86_399, "23 h"),
        (864_000, "10 d"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_counts_end_at_their_limit() -> None:
    assert (count(1204), count(COUNTED_AT_MOST)) == ("1,204", "100,000 or more")


def test_what_is_exact_is_told_whole() -> None:
    assert (number(1, "event"), number(200_000, "event"), number(0, "e-mail")) == (
        "1 event",
        "200,000 events",
        "0 e-mails",
    )
