"""Rows of one request: the same key in one group, whose word counts about a recipient, how long a key is kept."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from services.ingest.acceptance import Admitted, Requirements, admit
from services.ingest.caller import Caller
from services.ingest.model import NotificationRequest
from services.ingest.row import (
    NotificationRow,
    Standing,
    compose,
    first_of_each_key,
    kept_until,
    merged_profiles,
    standing,
)
from shared.core.catalogue import Catalogue, NotificationType, Template
from shared.core.sealing import KeyRing
from shared.wire.channel import DEFAULT_CHANNELS, Category, MessageClass

NOW = datetime(2026, 11, 30, tzinfo=UTC)
RING = KeyRing(active="k1", keys={"k1": bytes(range(32))}, lookup_key=bytes(range(32, 64)))
CALLER = Caller(UUID(int=1), "key", 1, "shop", b"", "live", frozenset({"all"}), None, None, None)
CATALOGUE = Catalogue(
    [NotificationType("T", Category.TRANSACTIONAL, MessageClass.TX, ("PUSH",), timedelta(hours=1))],
    [Template("T", "PUSH", "tr", 1, {}, frozenset())],
    (),
)


def row(number: int, **changes: Any) -> NotificationRow:
    request = NotificationRequest.model_validate({"eventId": "e", "userId": 7, "type": "T", "params": {}, **changes})
    admitted = admit(request, Requirements(CATALOGUE, DEFAULT_CHANNELS), NOW)
    assert isinstance(admitted, Admitted)
    return compose(admitted, CALLER, RING, UUID(int=number), None)


def test_of_one_key_in_a_group_the_first_is_inserted() -> None:
    rows = [row(1), row(2), row(3, eventId="other"), row(4)]
    assert [item.id.int for item in first_of_each_key(rows)] == [1, 3]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        pytest.param({"userId": 7}, {"userId": "7"}, True, id="integer-or-text"),
        pytest.param({"params": {"a": 1, "b": 2}}, {"params": {"b": 2, "a": 1}}, True, id="order-of-params"),
        pytest.param({"params": {"a": 1}}, {"params": {"a": "1"}}, False, id="number-or-text"),
        pytest.param({"userId": 7}, {"userId": 8}, False, id="other-user"),
    ],
)
def test_fingerprint_is_of_recipient_type_and_params_A1(
    first: dict[str, Any], second: dict[str, Any], same: bool
) -> None:
    assert (row(1, **first).fingerprint == row(2, **second).fingerprint) is same


@pytest.mark.parametrize(
    ("holder", "fingerprint", "expected"),
    [
        pytest.param(1, b"mine", Standing.FIRST, id="own"),
        pytest.param(2, b"mine", Standing.REPEATED, id="same-body"),
        pytest.param(2, b"other", Standing.CONFLICTING, id="other-body"),
    ],
)
def test_standing(holder: int, fingerprint: bytes, expected: Standing) -> None:
    found = standing(
        own_id=UUID(int=1), own_fingerprint=b"mine", holder=UUID(int=holder), holder_fingerprint=fingerprint
    )
    assert found is expected


def test_the_later_request_has_the_last_word_about_its_recipient() -> None:
    rows = [
        row(1, recipient={"locale": "tr", "email": "a@example.com"}),
        row(2, recipient={"locale": "en"}),
        row(3, userId=8),
        row(4),
    ]
    merged = merged_profiles(rows)
    assert rows[0].profile is not None
    assert (merged["7"].locale, merged["7"].email_key) == ("en", rows[0].profile.email_key)
    assert merged["8"].locale is None


@pytest.mark.parametrize(
    ("expires_in", "kept"),
    [(timedelta(hours=1), timedelta(days=7)), (timedelta(days=10), timedelta(days=11))],
)
def test_a_key_is_kept_seven_days_or_a_day_past_expiry(expires_in: timedelta, kept: timedelta) -> None:
    assert kept_until(NOW, NOW + expires_in) == NOW + kept
