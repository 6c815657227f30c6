"""What can be told as an event, and how it looks."""

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from ulak_client import Event

from services.router.cloudevent import read_event

ISTANBUL = timezone(timedelta(hours=3))


def event(**changes: Any) -> Event:
    return Event(**{"id": "1", "source": "/shop", "type": "T", "data": {}, **changes})


def test_the_payload_is_a_cloudevent_that_ulak_reads() -> None:
    told = event(data={"name": "İğne", "n": 1.5}, time=datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=ISTANBUL))
    assert json.loads(told.payload()) == {
        "specversion": "1.0",
        "id": "1",
        "source": "/shop",
        "type": "T",
        "time": "2026-03-01T12:00:00.250000+03:00",
        "datacontenttype": "application/json",
        "data": {"name": "İğne", "n": 1.5},
    }
    read = read_event(told.payload(), {})
    assert (read.id, read.source, read.type) == ("1", "/shop", "T")
    assert read.time == datetime(2026, 3, 1, 9, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"id": ""}, ValueError, "an event's id has 0 characters: give 1 to 200"),
        ({"id": "x" * 201}, ValueError, "id has 201 characters"),
        ({"id": 7}, TypeError, "an event's id is int: give text"),
        ({"source": ""}, ValueError, "source"),
        ({"type": ""}, ValueError, "type"),
        ({"type": None}, TypeError, "type is NoneType"),
        ({"key": ""}, ValueError, "key"),
        ({"key": "a\nb"}, ValueError, "key holds a control character"),
        ({"time": datetime(2026, 1, 1)}, ValueError, "offset"),  # noqa: DTZ001  that is the case
        ({"data": {"price": Decimal("9.90")}}, TypeError, "data is not JSON .*Decimal.*: convert it"),
        ({"data": {"ratio": float("nan")}}, ValueError, "data is not JSON"),
        ({"data": {"text": "\ud800"}}, ValueError, "surrogate"),
        ({"data": "text"}, TypeError, "data is str: give a mapping"),
    ],
)
def test_what_cannot_be_told_is_refused_at_once(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        event(**changes)


def test_repr_does_not_show_the_data() -> None:
    assert "ayse" not in repr(event(data={"to": "ayse@example.com"}))
