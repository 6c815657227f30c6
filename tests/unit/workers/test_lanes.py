"""Which lanes a process serves, which provider a delivery goes to, which quotas hold."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from services.workers.lanes import STRATEGIES, Configured, chosen_lanes, quotas
from services.workers.push.strategy import PUSH
from services.workers.settings import WorkerSettings
from services.workers.sms.strategy import SMS
from shared.delivery.order import Weighted, in_turn
from shared.delivery.route import Standing, To
from shared.providers.push.apns.client import APNS
from shared.providers.push.fcm.client import FCM
from shared.providers.push.fcm.settings import FcmSettings
from shared.providers.registry import Provider
from shared.providers.sms.twilio.client import TWILIO
from shared.providers.sms.twilio.settings import TwilioSettings
from shared.wire.channel import DEFAULT_CHANNELS
from tests.unit.delivery.test_triage import NOW, row


def test_lanes_are_taken_once_in_declared_order() -> None:
    assert [lane.name for lane in chosen_lanes(["push-tx", "otp-sms", "push-tx"], DEFAULT_CHANNELS)] == [
        "push-tx",
        "otp-sms",
    ]
    assert chosen_lanes(["otp-sms", "all"], DEFAULT_CHANNELS) == DEFAULT_CHANNELS.lanes


def test_unknown_lane_is_refused() -> None:
    with pytest.raises(ValueError, match="use one of"):
        chosen_lanes(["sms"], DEFAULT_CHANNELS)


def test_every_channel_that_is_sent_has_a_strategy() -> None:
    assert set(STRATEGIES) == {spec.name for spec in DEFAULT_CHANNELS.specs if spec.is_sent}


@pytest.mark.parametrize(
    ("platform", "provider"), [("IOS", "apns"), ("ANDROID", "fcm"), ("WEB", "fcm"), (None, "fcm"), ("TIZEN", "fcm")]
)
@pytest.mark.parametrize("configured", [(), (APNS,), (FCM,), (APNS, FCM)], ids=["none", "apns", "fcm", "both"])
def test_platform_names_the_provider(
    platform: str | None, provider: str, configured: tuple[Provider[Any], ...]
) -> None:
    order = PUSH.order(configured)
    assert Standing(order).choose(replace(row(), platform=platform), NOW) == To(provider, None)


def test_provider_of_another_distribution_takes_its_platform() -> None:
    huawei = replace(APNS, name="huawei", platforms=frozenset({"ANDROID"}))
    order = PUSH.order([huawei, FCM])
    assert order.of("ANDROID") == in_turn(["huawei", "fcm"])
    assert order.of("WEB") == in_turn(["fcm"])


def test_first_configured_provider_or_the_one_to_ask_for() -> None:
    for providers, chosen in (([], "twilio"), ([replace(TWILIO, name="other"), TWILIO], "other")):
        assert Standing(SMS.order(providers)).choose(row(), NOW) == To(chosen, None)


def test_order_of_the_lane_comes_before_that_of_its_channel() -> None:
    settings = WorkerSettings(providers={"SMS": "vonage, twilio", "sms-bulk": "twilio=80 + vonage=20"})
    lane = DEFAULT_CHANNELS.lane
    assert settings.order(lane("otp-sms")) == in_turn(["vonage", "twilio"])
    assert settings.order(lane("sms-bulk")) == ((Weighted("twilio", 80), Weighted("vonage", 20)),)
    assert settings.order(lane("push-tx")) is None
    both = [TWILIO, replace(TWILIO, name="vonage")]
    assert SMS.order(both, settings.order(lane("sms-tx"))).of(None) == in_turn(["vonage", "twilio"])
    assert SMS.order([TWILIO], settings.order(lane("sms-tx"))).of(None) == in_turn(["twilio"])


@pytest.mark.parametrize(
    ("providers", "said"),
    [
        ({"sms": "twilio"}, "neither a lane nor a channel"),
        ({"SMS": "twilio, "}, "is no provider"),
        ({"SMS": "twilio=0"}, "whole number from 1"),
        ({"SMS": "twilio=x + vonage"}, "whole number from 1"),
        ({"SMS": "twilio, vonage + twilio"}, "names a provider twice"),
    ],
)
def test_order_that_is_none_is_refused_at_the_start(providers: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        WorkerSettings(providers=providers)


def test_quotas_are_those_of_the_contracts() -> None:
    found = quotas([Configured(TWILIO, TwilioSettings()), Configured(FCM, FcmSettings())])
    assert {name: (quota.per_second, quota.reserve_per_second) for name, quota in found.items()} == {
        "twilio": (500, 150),
        "fcm": (10_000, 0),
    }
