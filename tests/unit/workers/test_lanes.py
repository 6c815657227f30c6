"""Which lanes a process serves, which provider a delivery goes to, which quotas hold."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pydantic import ValidationError

from services.workers import __main__ as main_module
from services.workers import lanes as lanes_module
from services.workers.lanes import STRATEGIES, Configured, chosen_lanes, open_lane, quotas
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


LANES = DEFAULT_CHANNELS.lanes


def test_no_topic_belongs_to_two_lanes() -> None:
    topics = [topic for lane in LANES for topic in (lane.topic, *lane.retry_topics, lane.dlq_topic)]
    assert len(set(topics)) == len(topics)


@pytest.mark.parametrize(
    ("name", "poll_batch", "deadline_sec", "tiers"),
    [
        pytest.param("otp-sms", 100, 7, (5, 15, 45), id="otp-sms"),
        pytest.param("sms-tx", 100, 20, (10, 60, 600, 3600), id="sms-tx"),
        pytest.param("sms-bulk", 1000, 30, (600, 3600), id="sms-bulk"),
        pytest.param("push-critical", 100, 5, (10, 60, 600, 3600), id="push-critical"),
        pytest.param("push-tx", 100, 5, (10, 60, 600, 3600), id="push-tx"),
        pytest.param("push-bulk", 1000, 30, (600, 3600), id="push-bulk"),
        pytest.param("email-critical", 100, 20, (10, 60, 600, 3600), id="email-critical"),
        pytest.param("email-tx", 100, 20, (10, 60, 600, 3600), id="email-tx"),
        pytest.param("email-bulk", 1000, 660, (600, 3600), id="email-bulk"),
        pytest.param("email-low", 1000, 660, (600, 3600), id="email-low"),
    ],
)
def test_numbers_of_each_lane(name: str, poll_batch: int, deadline_sec: float, tiers: tuple[int, ...]) -> None:
    lane = DEFAULT_CHANNELS.lane(name)
    assert (lane.poll_batch, lane.send_deadline_sec, lane.tiers) == (poll_batch, deadline_sec, tiers)
    assert lane.lease_sec > lane.send_deadline_sec


def test_the_table_has_every_lane() -> None:
    (table,) = (mark for mark in test_numbers_of_each_lane.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert {case.id for case in table.args[1]} == {lane.name for lane in LANES}


class _Opened:
    """Stands for a sender; remembers nothing, as nothing is sent."""

    provider = "acme"
    concurrency = 5


async def test_each_lane_has_consumers_groups_and_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    opened: list[str] = []

    def consumer(_settings: object, **arguments: Any) -> object:
        made.append(arguments)
        return object()

    @asynccontextmanager
    async def connect(_settings: object) -> AsyncIterator[Any]:
        opened.append("acme")
        yield _Opened()

    monkeypatch.setattr(lanes_module, "Consumer", consumer)
    acme: Any = replace(TWILIO, name="acme", open=connect)
    stand_in: Any = MagicMock(settings=WorkerSettings(), shares=None, channels=DEFAULT_CHANNELS)
    names = ("otp-sms", "sms-tx", "sms-bulk")
    async with AsyncExitStack() as stack:
        for name in names:
            lane = DEFAULT_CHANNELS.lane(name)
            entry = Configured(acme, TwilioSettings())
            await open_lane(lane, SMS, stand_in, MagicMock(), [entry], stack)
    assert len(opened) == len(names)
    groups = [arguments["group"] for arguments in made]
    assert len(set(groups)) == len(groups) == sum(1 + len(DEFAULT_CHANNELS.lane(name).tiers) for name in names)
    for arguments in made:
        assert arguments["group"] == f"workers-{arguments['topics'][0]}"
    assert {
        arguments["topics"][0]: arguments["batch_size"] for arguments in made if "retry" not in arguments["group"]
    } == {
        "otp-sms": 100,
        "sms-tx": 100,
        "sms-bulk": 1000,
    }


async def test_each_class_has_database_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def pool(_settings: object, *, name: str, size: int) -> AsyncIterator[str]:
        yield f"{name}, {size} connections"

    monkeypatch.setattr(main_module, "open_pool", pool)
    monkeypatch.setenv("ULAK_POSTGRES_DSN", "postgresql://nowhere/ulak")
    async with AsyncExitStack() as stack:
        pools: Any = await main_module._open_pools(LANES, WorkerSettings(pool_size=3), stack)
    assert {lane.message_class.label: pools[lane.name] for lane in LANES} == {
        "critical": "workers critical, 3 connections",
        "tx": "workers tx, 3 connections",
        "bulk": "workers bulk, 3 connections",
        "low": "workers bulk, 3 connections",
    }
