import pytest

from ops.simulator.providers.fcm.reference import reference
from ops.simulator.providers.fcm.rule import payload_bytes, refusal, snake_cased


def refused(message: object) -> tuple[int, str] | None:
    failure = refusal(snake_cased({"message": message}))
    return None if failure is None else (failure.http_status, failure.name)


INVALID = (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param({"token": "t", "data": {"a": "1"}}, None, id="data"),
        pytest.param({"topic": "weather", "notification": {"title": "a"}}, None, id="topic"),
        pytest.param({"condition": "'a' in topics"}, None, id="condition"),
        pytest.param({}, INVALID, id="empty"),
        pytest.param({"data": {"a": "1"}}, INVALID, id="no-target"),
        pytest.param({"token": "t", "topic": "w"}, INVALID, id="two-targets"),
        pytest.param({"token": "a b"}, INVALID, id="token-form"),
        pytest.param({"topic": "/topics/w"}, INVALID, id="topic-form"),
        pytest.param({"token": "t", "data": {"a": 1}}, INVALID, id="data-value-no-text"),
        pytest.param({"token": "t", "data": {"from": "x"}}, INVALID, id="reserved-key"),
        pytest.param({"token": "t", "data": {"google.a": "x"}}, INVALID, id="reserved-prefix"),
        pytest.param({"token": "t", "colour": "red"}, INVALID, id="unknown-field"),
        pytest.param({"token": "t", "android": {"collapseKey": "k", "ttl": "3.5s"}}, None, id="camel-case"),
        pytest.param({"token": "t", "android": {"collapse_key": "k"}}, None, id="snake-case"),
        pytest.param({"token": "t", "android": {"ttl": "2419200s"}}, None, id="ttl-four-weeks"),
        pytest.param({"token": "t", "android": {"ttl": "2419201s"}}, INVALID, id="ttl-longer"),
        pytest.param({"token": "t", "android": {"ttl": "60"}}, INVALID, id="ttl-without-unit"),
        pytest.param({"token": "t", "android": {"priority": "urgent"}}, INVALID, id="priority"),
        pytest.param({"token": "t", "fcm_options": {"analytics_label": "a b"}}, INVALID, id="label-form"),
        pytest.param({"token": "t", "fcm_options": {"analytics_label": "a" * 51}}, INVALID, id="label-51"),
        pytest.param({"token": "t", "data": {"abcd": "ş" * 2046}}, None, id="4096-bytes-P7"),
        pytest.param({"token": "t", "data": {"abcde": "ş" * 2046}}, INVALID, id="4097-bytes-P7"),
        pytest.param({"token": "unregistered-1"}, (404, "UNREGISTERED"), id="programmed-token-P8"),
        pytest.param([], INVALID, id="no-object"),
    ],
)
def test_refusal(message: object, expected: tuple[int, str] | None) -> None:
    assert refused(message) == expected


def test_what_the_json_layer_refuses_has_no_fcm_code() -> None:
    """FCM never saw it: a sender must not read it as a verdict on the token (case P8)."""
    failure = refusal({"message": {"token": "t", "data": {"a": 1}}})
    assert failure is not None
    assert failure.error_code is None


def test_android_parts_replace_the_common_ones_when_bytes_are_counted() -> None:
    message: dict[str, object] = {
        "data": {"a": "1234"},
        "notification": {"title": "ş", "body": "b"},
        "android": {"data": {"a": "1"}, "notification": {"title": "title"}},
    }
    assert payload_bytes(message) == len("a1") + len("title" + "title") + len("body" + "b")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"fcm_options": {"analytics_label": "l"}, "data": {"reference": "r"}}, "r"),
        ({"fcm_options": {"analytics_label": "l"}, "data": {"notificationId": "n"}}, "l"),
        ({"data": {"notificationId": "n"}}, "n"),
        ({"data": "x"}, None),
    ],
)
def test_reference(message: dict[str, object], expected: str | None) -> None:
    assert reference(message) == expected
