"""Lanes as data: which lane a class travels on, names of topics and tiers."""

import pytest

from shared.wire.channel import (
    DEFAULT_CHANNELS,
    EMAIL,
    PUSH,
    SMS,
    AddressKind,
    Category,
    Channels,
    ChannelSpec,
    Lane,
    MessageClass,
    Promise,
    duration_label,
)

C = MessageClass


def lane(name: str, message_class: MessageClass) -> Lane:
    return Lane(
        name=name, channel="FAX", message_class=message_class, tiers=(90,), last_tier_repeats=False, poll_batch=1,
        send_deadline_sec=1, lease_margin_sec=1, max_attempts=1,
    )  # fmt: skip


def channel(*lanes: Lane) -> ChannelSpec:
    return ChannelSpec("FAX", AddressKind.PHONE, lanes, Promise.AT_LEAST_ONCE, "MARKETING_FAX", ("text",))


@pytest.mark.parametrize(
    ("spec", "message_class", "name"),
    [
        (EMAIL, C.CRITICAL, "email-critical"),
        (EMAIL, C.TX, "email-tx"),
        (EMAIL, C.BULK, "email-bulk"),
        (EMAIL, C.LOW, "email-low"),
        (PUSH, C.CRITICAL, "push-critical"),
        (PUSH, C.TX, "push-tx"),
        (PUSH, C.BULK, "push-bulk"),
        (PUSH, C.LOW, "push-bulk"),  # `low` uses `bulk`
        (SMS, C.CRITICAL, "otp-sms"),
        (SMS, C.TX, "sms-tx"),
        (SMS, C.BULK, "sms-bulk"),
        (SMS, C.LOW, "sms-bulk"),
        (channel(lane("fax-tx", C.TX), lane("fax-low", C.LOW)), C.CRITICAL, "fax-tx"),  # the next lower
        (channel(lane("fax-tx", C.TX), lane("fax-low", C.LOW)), C.BULK, "fax-low"),
        (channel(lane("fax-critical", C.CRITICAL), lane("fax-tx", C.TX)), C.LOW, "fax-tx"),  # none lower: the nearest
    ],
)
def test_lane_of_a_class(spec: ChannelSpec, message_class: MessageClass, name: str) -> None:
    assert spec.lane(message_class).name == name


def test_a_channel_without_lanes_says_so() -> None:
    with pytest.raises(ValueError, match="no lanes"):
        channel().lane(C.TX)


@pytest.mark.parametrize(
    ("name", "topics"),
    [
        ("otp-sms", ["otp-sms-retry-5s", "otp-sms-retry-15s", "otp-sms-retry-45s"]),
        ("push-tx", ["push-tx-retry-10s", "push-tx-retry-1m", "push-tx-retry-10m", "push-tx-retry-1h"]),
        ("email-low", ["email-low-retry-10m", "email-low-retry-1h"]),
    ],
)
def test_retry_topics(name: str, topics: list[str]) -> None:
    assert list(DEFAULT_CHANNELS.lane(name).retry_topics) == topics


def test_a_tier_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no retry tier of 7 s"):
        DEFAULT_CHANNELS.lane("otp-sms").retry_topic(7)


@pytest.mark.parametrize(("seconds", "label"), [(5, "5s"), (60, "1m"), (90, "90s"), (600, "10m"), (7200, "2h")])
def test_duration_label(seconds: int, label: str) -> None:
    assert duration_label(seconds) == label


def test_an_otp_is_never_leased_for_more_than_ten_seconds() -> None:
    assert DEFAULT_CHANNELS.lane("otp-sms").lease_sec <= 10


@pytest.mark.parametrize(("name", "waits_sec"), [("email-bulk", 600), ("email-low", 600)])
def test_a_bulk_mail_is_not_given_up_before_its_server_must_have_answered(name: str, waits_sec: float) -> None:
    assert DEFAULT_CHANNELS.lane(name).send_deadline_sec > waits_sec


@pytest.mark.parametrize("chosen", DEFAULT_CHANNELS.lanes, ids=lambda chosen: chosen.name)
def test_a_lease_outlives_its_deadline_and_tiers_grow(chosen: Lane) -> None:
    assert chosen.lease_sec > chosen.send_deadline_sec
    assert list(chosen.tiers) == sorted(set(chosen.tiers))
    assert chosen.poll_batch == (100 if chosen.message_class <= C.TX else 1000)


def test_default_promises() -> None:
    assert SMS.default_promise is Promise.AT_MOST_ONCE
    assert PUSH.default_promise is EMAIL.default_promise is Promise.AT_LEAST_ONCE


def test_message_classes_sort_most_urgent_first_and_have_labels() -> None:
    assert [c.label for c in sorted(C)] == ["critical", "tx", "bulk", "low"]
    assert [C.from_label(c.label) for c in C] == list(C)
    with pytest.raises(ValueError, match="'vip'"):
        C.from_label("vip")


@pytest.mark.parametrize(
    ("category", "message_class"),
    [(Category.SECURITY, C.CRITICAL), (Category.TRANSACTIONAL, C.TX), (Category.MARKETING, C.BULK)],
)
def test_class_of_a_category(category: Category, message_class: MessageClass) -> None:
    assert category.message_class is message_class


def test_a_channel_can_be_added_and_unknown_ones_are_named() -> None:
    channels = Channels((*DEFAULT_CHANNELS.specs, channel(lane("fax-tx", C.TX))))
    assert "FAX" in channels
    assert channels.lane("fax-tx").channel == "FAX"
    assert "FAX" not in DEFAULT_CHANNELS
    with pytest.raises(ValueError, match=r"'FAX'.*EMAIL, PUSH, SMS"):
        DEFAULT_CHANNELS.spec("FAX")
    with pytest.raises(ValueError, match="'fax-tx'"):
        DEFAULT_CHANNELS.lane("fax-tx")
