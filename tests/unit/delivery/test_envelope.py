"""Neighbours that share an Envelope are one message, wherever a batch is cut."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from shared.core.ports import Envelope, Prepared
from shared.core.reference import DeliveryKey
from shared.delivery.envelope import bounds, parts
from shared.wire.channel import MessageClass

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)


def batch(text: str) -> list[Prepared]:
    """One delivery a letter: the same letter is the same Envelope, a dot has none."""
    envelopes = {letter: Envelope(letter) for letter in text if letter != "."}
    return [
        Prepared(
            key=DeliveryKey(UUID(int=1), "EMAIL", bytes([position])),
            attempt=1,
            address="a@example.com",
            content={},
            message_class=MessageClass.TX,
            expires_at=NOW,
            envelope=envelopes.get(letter),
        )
        for position, letter in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", [0]), ("...", [0, 1, 2, 3]), ("aaa", [0, 3]), ("aab.bb", [0, 2, 3, 4, 6]), (".a.", [0, 1, 2, 3])],
)
def test_bounds(text: str, expected: list[int]) -> None:
    assert bounds(batch(text)) == expected


@pytest.mark.parametrize(
    ("text", "messages", "expected"),
    [
        ("", 2, []),
        ("....", 2, [(0, 2), (2, 4)]),
        (".....", 2, [(0, 2), (2, 4), (4, 5)]),
        ("aaabbb.", 1, [(0, 3), (3, 6), (6, 7)]),
        ("aaabbb.", 2, [(0, 6), (6, 7)]),
        ("aaa", 5, [(0, 3)]),
    ],
)
def test_no_part_cuts_a_message(text: str, messages: int, expected: list[tuple[int, int]]) -> None:
    assert list(parts(batch(text), messages)) == expected
