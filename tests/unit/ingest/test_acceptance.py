"""What is accepted, what is refused, and what the refusal says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from services.ingest.acceptance import (
    Admitted,
    Requirements,
    admit,
    missing_parameters,
    parameters_in_doubt,
)
from services.ingest.model import NotificationRequest
from shared.core.catalogue import Catalogue, NotificationType, Template
from shared.web.invalid import invalid_fields
from shared.web.problem import Problem
from shared.wire.channel import DEFAULT_CHANNELS, Category, MessageClass

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
TYPES = (
    NotificationType("ORDER_SHIPPED", Category.TRANSACTIONAL, MessageClass.TX, ("PUSH", "EMAIL"), timedelta(days=1)),
    NotificationType("BARE", Category.MARKETING, MessageClass.BULK, ("EMAIL",), HOUR),
)
TEMPLATES = (
    Template("ORDER_SHIPPED", "PUSH", "tr", 1, {}, frozenset({"orderNo"})),
    Template("ORDER_SHIPPED", "EMAIL", "tr", 1, {}, frozenset({"orderNo", "carrier", "trackingUrl"})),
    Template("ORDER_SHIPPED", "EMAIL", "en", 1, {}, frozenset({"orderNo"})),
)
CATALOGUE = Catalogue(TYPES, TEMPLATES, ())
REQUIREMENTS = Requirements(CATALOGUE, DEFAULT_CHANNELS)
COMPLETE = {"orderNo": "98213", "carrier": "Kargo A", "trackingUrl": "https://kargo.example/1"}


def request(**changes: Any) -> NotificationRequest:
    base = {"eventId": "order-98213-SHIPPED", "userId": 7, "type": "ORDER_SHIPPED", "params": COMPLETE}
    return NotificationRequest.model_validate({**base, **changes})


def admitted(**changes: Any) -> Admitted:
    found = admit(request(**changes), REQUIREMENTS, NOW)
    assert isinstance(found, Admitted), found
    return found


def refused(**changes: Any) -> Problem:
    found = admit(request(**changes), REQUIREMENTS, NOW)
    assert isinstance(found, Problem)
    return found


@pytest.mark.parametrize(
    ("change", "code", "paths"),
    [
        pytest.param({"type": "NOPE"}, "unknown_type", ["type"], id="unknown-type"),
        pytest.param({"type": "BARE"}, "template_missing", ["type"], id="type-without-a-template"),
        pytest.param({"channels": ["PUSH", "FAX"]}, "unknown_channel", ["channels.1"], id="unknown-channel"),
        pytest.param({"channels": ["SMS"]}, "template_missing", ["channels.0"], id="channel-without-a-template"),
        pytest.param({"priority": "urgent"}, "unknown_priority", ["priority"], id="unknown-priority"),
        pytest.param({"priority": "Critical"}, "unknown_priority", ["priority"], id="priority-in-mixed-case"),
        pytest.param({"sendAt": "2026-12-30T12:00:01Z"}, "invalid_time", ["sendAt"], id="over-30-days-ahead"),
        pytest.param({"eventTime": "2026-11-30T13:00:01Z"}, "invalid_time", ["eventTime"], id="event-from-the-future"),
        pytest.param({"eventTime": "2026-11-29T12:00:00Z"}, "expired_on_arrival", ["eventTime"], id="event-too-old"),
        pytest.param({"expiresAt": "2026-11-30T12:00:00Z"}, "expired_on_arrival", ["expiresAt"], id="expired-now"),
        pytest.param(
            {"sendAt": "2026-12-01T12:00:00Z", "expiresAt": "2026-12-01T12:00:00Z"},
            "invalid_time",
            ["expiresAt", "sendAt"],
            id="would-expire-before-it-starts",
        ),
        pytest.param({"recipient": {"email": "x"}}, "invalid_address", ["recipient.email"], id="no-e-mail-address"),
        pytest.param({"recipient": {"phone": "+9021212"}}, "invalid_address", ["recipient.phone"], id="no-phone"),
        pytest.param(
            {"recipient": {"timeZone": "+03:00"}}, "invalid_time_zone", ["recipient.timeZone"], id="offset-as-zone-T3"
        ),
        pytest.param(
            {"recipient": {"timeZone": "Europe/Ankara"}}, "invalid_time_zone", ["recipient.timeZone"], id="no-zone-T4"
        ),
        pytest.param(
            {"recipient": {"timeZone": "../../etc/passwd"}},
            "invalid_time_zone",
            ["recipient.timeZone"],
            id="path-as-zone",
        ),
        pytest.param({"params": {"n": 2**70}}, "invalid_parameters", ["params"], id="number-beyond-64-bits"),
        pytest.param(
            {"params": {"orderNo": "1", "unsubscribeUrl": "https://evil.example"}},
            "invalid_parameters",
            ["params.unsubscribeUrl"],
            id="parameter-that-is-ours-E8",
        ),
    ],
)
def test_refusals(change: dict[str, Any], code: str, paths: list[str]) -> None:
    problem = refused(**change)
    assert (problem.status, problem.code, [error.path for error in problem.errors]) == (422, code, paths)
    assert problem.detail.endswith(".")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"userId": True}, "userId", id="boolean-user"),
        pytest.param({"userId": 7.0}, "userId", id="float-user"),
        pytest.param({"userId": ""}, "userId", id="empty-user"),
        pytest.param({"userId": "u" * 129}, "userId", id="long-user"),
        pytest.param({"userId": 2**63}, "userId", id="huge-user"),
        pytest.param({"userId": None}, "userId", id="null-user"),
        pytest.param({"eventId": "a\x00b"}, "eventId", id="nul"),
        pytest.param({"eventId": "a\r\nb"}, "eventId", id="line-break"),
        pytest.param({"eventId": 5}, "eventId", id="number-for-text"),
        pytest.param({"params": []}, "params", id="list-of-params"),
        pytest.param({"channels": []}, "channels", id="no-channels"),
        pytest.param({"channels": "PUSH"}, "channels", id="text-for-list"),
        pytest.param({"collapseKey": "ş" * 33}, "collapseKey", id="66-bytes-P7"),
        pytest.param({"eventTime": "2026-11-30T12:00:00"}, "eventTime", id="no-offset"),
        pytest.param({"eventTime": 1_700_000_000}, "eventTime", id="unix-time"),
        pytest.param({"eventTime": "2026-02-30T12:00:00Z"}, "eventTime", id="no-such-day"),
        pytest.param({"eventTime": "0001-01-01T00:00:00+23:59"}, "eventTime", id="before-year-1"),
        pytest.param({"attachments": []}, "attachments", id="unknown-field"),
        pytest.param({"recipient": {"mail": "a@example.com"}}, "recipient.mail", id="unknown-field-inside"),
        pytest.param({"recipient": {"locale": "Türkçe"}}, "recipient.locale", id="no-locale"),
    ],
)
def test_fields_of_the_wrong_shape_are_named_in_the_callers_words(change: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        request(**change)
    problem = invalid_fields(caught.value)
    assert (problem.status, problem.code) == (422, "invalid_request")
    assert [error.path for error in problem.errors] == [path]
    assert all(error.detail for error in problem.errors)


def test_a_refusal_never_repeats_the_value() -> None:
    with pytest.raises(ValidationError) as caught:
        request(eventTime="secret-482913", recipient={"email": 5, "phone": ["+905321234567"]})
    text = str(invalid_fields(caught.value).body())
    assert "482913" not in text
    assert "532" not in text


@pytest.mark.parametrize(
    ("priority", "given", "clamped"),
    [
        pytest.param(None, MessageClass.TX, None, id="the-types"),
        pytest.param("tx", MessageClass.TX, None, id="the-same"),
        pytest.param("TRANSACTIONAL", MessageClass.TX, None, id="by-category"),
        pytest.param("low", MessageClass.LOW, None, id="lower"),
        pytest.param("MARKETING", MessageClass.BULK, None, id="lower-by-category"),
        pytest.param("critical", MessageClass.TX, "critical", id="raised"),
        pytest.param("SECURITY", MessageClass.TX, "SECURITY", id="raised-by-category"),
    ],
)
def test_priority_lowers_and_never_raises(priority: str | None, given: MessageClass, clamped: str | None) -> None:
    found = admitted(priority=priority)
    assert found.message_class is given
    assert (found.clamped.requested if found.clamped else None) == clamped
    assert found.clamped is None or found.clamped.applied == "tx"


@pytest.mark.parametrize(
    ("change", "send_at", "expires_at"),
    [
        pytest.param({}, None, NOW + 24 * HOUR, id="from-acceptance"),
        pytest.param({"eventTime": "2026-11-30T13:00:00+03:00"}, None, NOW + 22 * HOUR, id="from-the-event"),
        pytest.param(
            {"sendAt": "2026-12-02T12:00:00Z", "eventTime": "2026-11-01T00:00:00Z"},
            NOW + 48 * HOUR,
            NOW + 72 * HOUR,
            id="from-send-at",
        ),
        pytest.param({"sendAt": "2026-11-30T11:00:00Z"}, None, NOW + 23 * HOUR, id="send-at-has-passed"),
        pytest.param({"expiresAt": "2026-11-30T12:30:00Z"}, None, NOW + HOUR / 2, id="shorter-than-the-type"),
        pytest.param({"expiresAt": "2027-11-30T12:30:00Z"}, None, NOW + 24 * HOUR, id="never-longer-than-the-type"),
        pytest.param({"sendAt": "2026-12-30T12:00:00Z"}, NOW + 30 * 24 * HOUR, NOW + 31 * 24 * HOUR, id="30-days"),
    ],
)
def test_when_it_is_sent_and_when_it_expires(
    change: dict[str, Any], send_at: datetime | None, expires_at: datetime
) -> None:
    found = admitted(**change)
    assert (found.send_at, found.expires_at) == (send_at, expires_at)


def seconds_from_now(first_day: int, last_day: int) -> st.SearchStrategy[float]:
    return st.floats(first_day * 86_400, last_day * 86_400)


@given(
    sent=st.none() | seconds_from_now(-30, 29),
    happened=st.none() | seconds_from_now(-30, 0),
    ends=st.none() | seconds_from_now(-30, 400),
)
def test_what_is_admitted_has_time_left(sent: float | None, happened: float | None, ends: float | None) -> None:
    """Whatever times are given: an admitted request expires after now and after its sending, within type's TTL."""
    names = {"sendAt": sent, "eventTime": happened, "expiresAt": ends}
    changes = {
        name: (NOW + timedelta(seconds=seconds)).isoformat() for name, seconds in names.items() if seconds is not None
    }
    found = admit(request(**changes), REQUIREMENTS, NOW)
    if isinstance(found, Admitted):
        assert found.expires_at > max(NOW, found.send_at or NOW)
        assert found.expires_at <= (found.send_at or NOW) + timedelta(days=1)


@pytest.mark.parametrize(
    ("params", "channels", "locale", "missing"),
    [
        pytest.param(COMPLETE, None, None, [], id="complete"),
        pytest.param({"orderNo": "1"}, None, None, ["carrier", "trackingUrl"], id="default-locale"),
        pytest.param({"orderNo": "1"}, None, "en-GB", [], id="needs-less-in-english-J3"),
        pytest.param({"orderNo": "1"}, ["PUSH"], None, [], id="only-the-asked-channel-counts"),
        pytest.param({}, None, "en", ["orderNo"], id="each-name-once"),
        pytest.param({**COMPLETE, "carrier": None}, None, None, ["carrier"], id="null-is-none"),
        pytest.param({**COMPLETE, "carrier": ""}, None, None, [], id="empty-is-given"),
        pytest.param({**COMPLETE, "carrier": 0}, None, None, [], id="zero-is-given"),
    ],
)
def test_missing_parameters(
    params: dict[str, Any], channels: list[str] | None, locale: str | None, missing: list[str]
) -> None:
    found = admitted(params=params, channels=channels)
    problem = missing_parameters(found, CATALOGUE, locale=locale, default_locale="tr")
    assert (
        [error.path for error in problem.errors] == [f"params.{name}" for name in missing] if problem else not missing
    )
    if missing:
        assert parameters_in_doubt(found, REQUIREMENTS)


def test_the_sentence_names_type_channel_locale_and_parameters() -> None:
    problem = missing_parameters(admitted(params={"orderNo": "1"}), CATALOGUE, locale="tr-TR", default_locale="en")
    assert problem is not None
    assert problem.body() == {
        "type": "urn:ulak:problem:template-parameters-missing",
        "title": "Template parameters are missing",
        "status": 422,
        "code": "template_parameters_missing",
        "detail": "ORDER_SHIPPED for EMAIL in tr needs carrier and trackingUrl. Send them in params.",
        "errors": [{"path": "params.carrier"}, {"path": "params.trackingUrl"}],
    }


def test_complete_requests_cost_no_look_up() -> None:
    assert not parameters_in_doubt(admitted(), REQUIREMENTS)


def test_channels_are_kept_in_order_each_once() -> None:
    assert admitted(channels=["EMAIL", "PUSH", "EMAIL"]).channels == ("EMAIL", "PUSH")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_no_json_value_is_more_than_a_refusal(value: Any) -> None:
    """Any JSON value, as the whole request or as its params, is admitted or refused, and never a surprise."""
    for candidate in (value, {**request().model_dump(by_alias=True, mode="json"), "params": {"x": value}}):
        found = parsed(candidate)
        answer = found if isinstance(found, Problem) else admit(found, REQUIREMENTS, NOW)
        assert isinstance(answer, Admitted) or answer.status == 422


def parsed(candidate: object) -> NotificationRequest | Problem:
    try:
        return NotificationRequest.model_validate(candidate)
    except ValidationError as error:
        return invalid_fields(error)


def test_a_type_without_a_template_in_the_recipients_or_the_default_locale_is_refused() -> None:
    problem = missing_parameters(admitted(params={}), CATALOGUE, locale="fr", default_locale="de")
    assert problem is not None
    assert problem.body()["code"] == "template_missing"
    assert "in fr, de" in problem.body()["detail"]


@pytest.mark.parametrize(
    ("body", "path", "says"),
    [
        pytest.param([1], "", "give an object", id="array"),
        pytest.param({"userId": ""}, "userId", "1 to 128 characters, or a whole number", id="empty-user"),
        pytest.param({"userId": True}, "userId", "1 to 128 characters, or a whole number", id="user-that-is-a-truth"),
        pytest.param({"eventId": "a\x00"}, "eventId", "printable", id="control-character"),
        pytest.param({"recipient": {"locale": "turkish!"}}, "recipient.locale", "tr-TR", id="locale"),
    ],
)
def test_a_wrong_field_is_told_in_the_callers_words(body: Any, path: str, says: str) -> None:
    """Never in pydantic's: no class names, no expressions."""
    whole = {"eventId": "e", "userId": "7", "type": "ORDER_SHIPPED", "params": {}}
    with pytest.raises(ValidationError) as caught:
        NotificationRequest.model_validate({**whole, **body} if isinstance(body, dict) else body)
    (error,) = invalid_fields(caught.value).errors
    assert error.path == path
    assert says in (error.detail or "")


def test_declared_parameters_are_checked_before_anything_is_accepted() -> None:
    schema = {
        "type": "object",
        "properties": {"orderNo": {"type": "string", "maxLength": 8}},
        "required": ["orderNo"],
        "additionalProperties": False,
    }
    declared = replace(TYPES[0], parameter_schema=schema)
    catalogue = Catalogue((declared,), TEMPLATES, ())
    requirements = Requirements(catalogue, DEFAULT_CHANNELS)

    def told(**params: Any) -> list[tuple[str, str | None]]:
        found = admit(request(params=params), requirements, NOW)
        return [(error.path, error.detail) for error in found.errors] if isinstance(found, Problem) else []

    assert told(orderNo="98213") == []
    assert told(orderNo=98213) == [("params.orderNo", 'the value is not of type "string"')]
    assert told(orderNo="982130000") == [("params.orderNo", "the value is longer than 8 characters")]
    assert [path for path, _ in told(orderNo="1", secret="hunter2")] == ["params"]
