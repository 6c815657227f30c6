"""Which lanes a process serves, which provider a delivery goes to, which quotas hold."""

from dataclasses import replace

import pytest

from services.workers.lanes import STRATEGIES, Configured, chosen_lanes, quotas
from services.workers.push.strategy import by_platform
from services.workers.strategy import first_of
from shared.providers.push.apns.client import APNS
from shared.providers.push.fcm.client import FCM
from shared.providers.push.fcm.settings import FcmSettings
from shared.providers.sms.twilio.client import TWILIO
from shared.providers.sms.twilio.settings import TwilioSettings
from shared.wire.channel import DEFAULT_CHANNELS
from tests.unit.delivery.test_triage import row


def test_lanes_are_taken_once_in_declared_order() -> None:
    assert [lane.name for lane in chosen_lanes(["push-tx", "otp-sms", "push-tx"], DEFAULT_CHANNELS)] == [
        "push-tx",
        "otp-sms",
    ]
    assert chosen_lanes(["otp-sms", "all"], DEFAULT_CHANNELS) == DEFAULT_CHANNELS.lanes


def test_unknown_lane_is_refused() -> None:
    with pytest.raises(ValueError, match="use one of"):
        chosen_lanes(["sms"], DEFAULT_CHANNELS)


def test_every_channel_has_a_strategy() -> None:
    assert set(STRATEGIES) == set(DEFAULT_CHANNELS.names)


@pytest.mark.parametrize(
    ("platform", "provider"), [("IOS", "apns"), ("ANDROID", "fcm"), ("WEB", "fcm"), (None, "fcm"), ("TIZEN", "fcm")]
)
@pytest.mark.parametrize("configured", [(), (APNS,), (FCM,), (APNS, FCM)], ids=["none", "apns", "fcm", "both"])
def test_platform_names_the_provider(platform: str | None, provider: str, configured: tuple[object, ...]) -> None:
    route = by_platform(configured)  # type: ignore[arg-type]  # providers of any settings
    assert route(replace(row(), platform=platform)) == provider


def test_provider_of_another_distribution_takes_its_platform() -> None:
    huawei = replace(APNS, name="huawei", platforms=frozenset({"ANDROID"}))
    route = by_platform([huawei, FCM])
    assert route(replace(row(), platform="ANDROID")) == "huawei"
    assert route(replace(row(), platform="WEB")) == "fcm"


def test_first_configured_provider_or_the_one_to_ask_for() -> None:
    assert first_of("twilio")([])(row()) == "twilio"
    assert first_of("twilio")([replace(TWILIO, name="other")])(row()) == "other"


def test_quotas_are_those_of_the_contracts() -> None:
    found = quotas([Configured(TWILIO, TwilioSettings()), Configured(FCM, FcmSettings())])
    assert {name: (quota.per_second, quota.reserve_per_second) for name, quota in found.items()} == {
        "twilio": (500, 150),
        "fcm": (10_000, 0),
    }
