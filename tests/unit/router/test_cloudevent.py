"""CloudEvents in both modes, and what is not one."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.router.cloudevent import read_event
from shared.wire.message import MalformedMessageError

EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "order-98213-SHIPPED",
    "source": "/shop/orders",
    "type": "com.example.shop.OrderShipped",
    "time": "2026-11-11T10:00:00+03:00",
    "data": {"orderNo": "98213"},
}
BINARY = {
    "ce_specversion": b"1.0",
    "ce_id": b"order-98213-SHIPPED",
    "ce_source": b"/shop/orders",
    "ce_type": b"com.example.shop.OrderShipped",
    "ce_time": b"2026-11-11T07:00:00Z",
    "ce_tenant": b"tr",
    "content-type": b"application/json",
}


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        pytest.param(
            orjson.dumps(EVENT), {"content-type": b"application/cloudevents+json; charset=utf-8"}, id="structured"
        ),
        pytest.param(orjson.dumps(EVENT), {}, id="structured-without-headers-as-plain-sql-enqueues-it"),
        pytest.param(b'{"orderNo": "98213"}', BINARY, id="binary"),
        pytest.param(b'{"orderNo": "98213"}', {k.upper(): v for k, v in BINARY.items()}, id="header-case"),
        pytest.param(
            orjson.dumps(
                {k: v for k, v in EVENT.items() if k != "data"} | {"data_base64": "eyJvcmRlck5vIjoiOTgyMTMifQ=="}
            ),
            {},
            id="data-base64",
        ),
    ],
)
def test_both_modes_say_the_same(value: bytes, headers: dict[str, bytes]) -> None:
    event = read_event(value, headers)
    assert (event.id, event.source, event.type) == (
        "order-98213-SHIPPED",
        "/shop/orders",
        "com.example.shop.OrderShipped",
    )
    assert event.time == datetime(2026, 11, 11, 7, 0, tzinfo=UTC)
    assert event.body["data"] == {"orderNo": "98213"}


def test_extensions_are_there_for_mappings() -> None:
    assert read_event(b"{}", BINARY).body["tenant"] == "tr"


@pytest.mark.parametrize(
    ("event", "headers"),
    [
        pytest.param(EVENT | {"traceparent": "00-a-b-01"}, {}, id="as-an-extension"),
        pytest.param(EVENT, {"traceparent": b"00-a-b-01"}, id="as-a-header"),
    ],
)
def test_the_trace_goes_on(event: dict[str, Any], headers: dict[str, bytes]) -> None:
    assert read_event(orjson.dumps(event), headers).traceparent == "00-a-b-01"


@pytest.mark.parametrize(
    ("value", "headers", "message"),
    [
        pytest.param(None, {}, "null", id="null-K7"),
        pytest.param(b'{"specversion": "1.0", "id":', {}, "not JSON", id="broken-json-K7"),
        pytest.param(b"[]", {}, "not a JSON object", id="array"),
        pytest.param(b'{"a": 1}', {}, "specversion", id="not-an-event"),
        pytest.param(orjson.dumps(EVENT | {"specversion": "0.3"}), {}, "specversion", id="older-version"),
        pytest.param(orjson.dumps(EVENT | {"id": ""}), {}, "`id`", id="empty-id"),
        pytest.param(orjson.dumps(EVENT | {"id": 7}), {}, "`id`", id="id-not-text"),
        pytest.param(orjson.dumps(EVENT | {"id": "x" * 201}), {}, "longer than 200", id="id-too-long"),
        pytest.param(orjson.dumps(EVENT | {"source": "a\x00b"}), {}, "NUL", id="nul"),
        pytest.param(orjson.dumps(EVENT | {"time": "yesterday"}), {}, "`time`", id="time"),
        pytest.param(orjson.dumps(EVENT | {"time": "2026-11-11T10:00:00"}), {}, "offset", id="time-without-offset"),
        pytest.param(b"[]", {"content-type": b"application/cloudevents-batch+json"}, "batched", id="batch"),
        pytest.param(b"<a/>", BINARY, "the data is not JSON", id="binary-not-json"),
    ],
)
def test_poison_says_what_is_wrong(value: bytes | None, headers: dict[str, bytes], message: str) -> None:
    with pytest.raises(MalformedMessageError, match=message):
        read_event(value, headers)


@given(value=st.binary(max_size=200), headers=st.dictionaries(st.sampled_from(sorted(BINARY)), st.binary(max_size=30)))
def test_no_bytes_break_the_reader(value: bytes, headers: dict[str, bytes]) -> None:
    try:
        read_event(value, headers)
    except MalformedMessageError:
        return
