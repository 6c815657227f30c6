"""Which provider a delivery goes to: order, weights, what is down, coming back, drained or paused."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from shared.core.breaker import Phase, Policy
from shared.core.control import NONE, Controls, Drain, Pause, PauseKind
from shared.core.outcome import Accepted, Permanent, ProviderDown, Transient
from shared.core.reference import DeliveryKey
from shared.delivery.order import LaneOrder, OrderError, Weighted, in_turn, parse_order
from shared.delivery.route import Account, Choice, Held, Routes, Standing, To, Wait
from shared.delivery.row import DeliveryRow
from shared.redis_store.breaker import Breakers, Guarded
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from tests.unit.delivery.test_triage import NOW, row

SOON, LATER = NOW + timedelta(seconds=60), NOW + timedelta(seconds=300)
PAUSE = UUID(int=7)
DOWN = Account(probes=0, why="breaker open since 12:03:10 UTC, 10 failures in a row", free_at=LATER)
DRAINED = Account(why="drained since 11:00:00 UTC", drained=True)
PAUSED = Account(why="paused since 11:30:00 UTC", pause_id=PAUSE)
TX = DEFAULT_CHANNELS.lane("sms-tx")


def of_message(number: int) -> DeliveryRow:
    """A row whose id has these random bits."""
    return replace(row(), key=DeliveryKey(UUID(int=(1 << 120) + number), "SMS", b"t" * 32))


def chosen(order: str, accounts: Mapping[str, Account], number: int = 0) -> Choice:
    standing = Standing(LaneOrder({"": parse_order(order)}, {"": "twilio"}), accounts)
    return standing.choose(of_message(number), NOW)


@pytest.mark.parametrize(
    ("order", "accounts", "choice"),
    [
        ("a, b", {}, To("a", None)),
        ("a, b", {"b": DOWN}, To("a", None)),
        ("a, b", {"a": DOWN}, To("b", f"b instead of a: {DOWN.why}")),
        ("a, b, c", {"a": DOWN, "b": DRAINED}, To("c", f"c instead of a: {DOWN.why}; b: {DRAINED.why}")),
        ("a, b", {"a": PAUSED}, To("b", f"b instead of a: {PAUSED.why}")),
        ("a, b", {"a": DOWN, "b": replace(DOWN, free_at=SOON)}, Wait(SOON, f"a: {DOWN.why}; b: {DOWN.why}")),
        ("a", {"a": PAUSED}, Held(PAUSE)),
        ("a, b", {"a": PAUSED, "b": DRAINED}, To("b", "b although it is drained: no other provider takes it")),
        ("a", {"a": DRAINED}, To("a", "a although it is drained: no other provider takes it")),
        # Somebody who may be well in minutes is waited for; a pause may take days.
        ("a, b", {"a": PAUSED, "b": DOWN}, Wait(LATER, f"a: {PAUSED.why}; b: {DOWN.why}")),
        ("a, b", {"a": DRAINED, "b": DOWN}, Wait(LATER, f"a: {DRAINED.why}; b: {DOWN.why}")),
        ("a=1 + b=3", {"a": DOWN}, To("b", f"b instead of a: {DOWN.why}")),
    ],
)
def test_the_first_that_takes_it(order: str, accounts: dict[str, Account], choice: Choice) -> None:
    assert chosen(order, accounts) == choice


@pytest.mark.parametrize(
    ("accounts", "choice"),
    [
        ({}, To("b", "b, as an operator's replay has chosen")),
        ({"a": DOWN, "b": DRAINED}, To("b", "b, as an operator's replay has chosen")),
        ({"b": replace(DOWN, probes=1)}, To("b", "b, as an operator's replay has chosen")),
        ({"b": DOWN}, Wait(LATER, f"b: {DOWN.why}")),
        ({"b": PAUSED}, Held(PAUSE)),
    ],
)
def test_the_one_that_a_replay_has_chosen_is_the_only_one(accounts: dict[str, Account], choice: Choice) -> None:
    standing = Standing(LaneOrder({"": parse_order("a, b")}, {"": "a"}), accounts)
    assert standing.choose(replace(of_message(1), chosen_provider="b"), NOW) == choice


def test_weights_part_a_step_and_each_message_keeps_its_provider() -> None:
    standing = Standing(LaneOrder({"": parse_order("a=80 + b=20, c")}, {"": "a"}))
    rows = [of_message(step << 16) for step in range(0, 1 << 16, 64)]
    counts = Counter(standing.choose(each, NOW) for each in rows)
    assert counts == {To("a", None): 820, To("b", None): 204}
    again = Standing(LaneOrder({"": parse_order("a=80 + b=20, c")}, {"": "a"}))
    assert [again.choose(each, NOW) for each in reversed(rows)] == [
        standing.choose(each, NOW) for each in reversed(rows)
    ]


def test_what_comes_back_gets_its_share_and_all_where_there_is_nobody_else() -> None:
    back = Account(share=0.25, why="getting its messages back since 12:00:00 UTC")
    numbers = range(0, 1 << 16, 64)
    counts = Counter(type_name(chosen("a, b", {"a": back}, number)) for number in numbers)
    assert counts == {"a": 256, "b": 768}
    assert {chosen("a, b", {"a": back, "b": DOWN}, number) for number in numbers} == {To("a", None)}
    assert chosen("a, b", {"a": back}, (1 << 16) - 1) == To("b", f"b instead of a: {back.why}")


def type_name(choice: Choice) -> str:
    assert isinstance(choice, To)
    return choice.provider


def test_probes_are_counted_by_message() -> None:
    trying = Account(probes=2, why="breaker half open since 12:08:10 UTC, tried again after 300 s", free_at=SOON)
    standing = Standing(LaneOrder({"": parse_order("a, b")}, {"": "a"}), {"a": trying})
    recipients = [
        replace(each, key=replace(each.key, target_key=bytes([n])))
        for each in map(of_message, (1, 2, 3))
        for n in (1, 2)
    ]
    providers = [type_name(standing.choose(each, NOW)) for each in recipients]
    assert providers == ["a", "a", "a", "a", "b", "b"]  # recipients of one message stay together


def test_address_that_nobody_takes_names_who_is_missing() -> None:
    order = LaneOrder({"": (), "IOS": in_turn(["apns"])}, {"": "fcm", "IOS": "apns", "WEBPUSH": "webpush"})
    platforms = {"IOS": "apns", "WEBPUSH": "webpush", None: "fcm"}
    assert {name: Standing(order).choose(replace(row(), platform=name), NOW) for name in platforms} == {
        name: To(provider, None) for name, provider in platforms.items()
    }


@pytest.mark.parametrize(
    ("order", "address", "provider"),
    [
        ("netgsm, twilio", "+905321234567", "netgsm"),
        ("netgsm, twilio", "+4915112345678", "twilio"),
        ("netgsm=99 + twilio=1", "+4915112345678", "twilio"),
        ("twilio, netgsm", "+905321234567", "twilio"),
        ("netgsm", "+4915112345678", "netgsm"),  # which says itself why it cannot
    ],
)
def test_provider_of_one_country_takes_its_numbers_alone(order: str, address: str, provider: str) -> None:
    lane = LaneOrder({"": parse_order(order)}, {"": "twilio"}, {"netgsm": ("+90",)})
    assert Standing(lane).choose(of_message(1), NOW, address) == To(provider, None)


@pytest.mark.parametrize("text", ["", "a,,b", "a=0", "a=-1", "a=1.5", "=3", "a + a", "a, a"])
def test_what_is_no_order(text: str) -> None:
    with pytest.raises(OrderError):
        parse_order(text)


def test_order_as_written() -> None:
    assert parse_order(" twilio = 80+ netgsm=20 ,vonage") == (
        (Weighted("twilio", 80), Weighted("netgsm", 20)),
        (Weighted("vonage", 1),),
    )


# ------------------------------------------------------------ Routes: how accounts stand


class Clock:
    def __init__(self) -> None:
        self.at = NOW.timestamp()

    def __call__(self) -> float:
        return self.at

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


async def _not_told(*_: object) -> None:
    """Nobody asks."""


def routes(lane: str = "sms-tx", *providers: str, clock: Clock) -> tuple[Routes, Breakers]:
    breakers = Breakers(None, Policy(), told=_not_told, retry_sec=1.0, clock=clock)
    made = DEFAULT_CHANNELS.lane(lane)
    return Routes(made, LaneOrder({"": in_turn(providers or ("twilio", "vonage"))}, {"": "twilio"}), breakers), breakers


async def choice(made: Routes, controls: Controls = NONE) -> Choice:
    return (await made.look(1, controls)).choose(replace(row(), key=DeliveryKey(uuid4(), "SMS", b"t" * 32)), NOW)


async def fail(made: Routes, provider: str, times: int = 10) -> None:
    await made.report(provider, made.phase(provider), [Transient("503")] * times, 0.1)


async def test_healthy_lane_costs_no_new_answer() -> None:
    made, _ = routes(clock=Clock())
    assert await made.look(100, NONE) is await made.look(100, NONE)


async def test_breaker_opens_second_takes_over_first_comes_back_gradually() -> None:
    clock = Clock()
    made, breakers = routes(clock=clock)
    assert await choice(made) == To("twilio", None)
    begun = made.phase("twilio")
    await fail(made, "twilio")
    assert made.stops("twilio", begun)
    why = "breaker open since 09:00:00 UTC, 10 failures in a row, the last: 503"
    assert await choice(made) == To("vonage", f"vonage instead of twilio: {why}")
    clock.at += 300
    half_open = "breaker half open since 09:05:00 UTC, tried again after 300 s"
    assert await choice(made) == To("twilio", f"twilio is tried again: {half_open}")
    assert await choice(made) == To("vonage", f"vonage instead of twilio: {half_open}")  # 1 asked for, 1 got
    await made.report("twilio", made.phase("twilio"), [Accepted("1")] * 5, 0.1)
    standing = await made.look(1, NONE)
    assert standing.accounts["twilio"].share == pytest.approx(0.1)
    assert breakers.known(Guarded("twilio", MessageClass.TX)).phase is Phase.CLOSED
    clock.at += 60
    assert await choice(made) == To("twilio", None)


async def test_all_down_waits_for_whoever_is_free_first() -> None:
    clock = Clock()
    made, _ = routes(clock=clock)
    await fail(made, "twilio")
    clock.at += 60
    await fail(made, "vonage")
    found = await choice(made)
    assert isinstance(found, Wait)
    assert found.until == clock.now + timedelta(seconds=240)


async def test_login_codes_try_an_open_breaker_every_second() -> None:
    clock = Clock()
    made, _ = routes("otp-sms", clock=clock)
    for provider in ("twilio", "vonage"):
        await fail(made, provider)
    found = await choice(made)
    assert isinstance(found, Wait)
    assert found.until == clock.now + timedelta(seconds=1)
    clock.at += 1
    tried = await choice(made)
    assert isinstance(tried, To)
    assert tried.provider == "twilio"
    await made.report("twilio", made.phase("twilio"), [Transient("503")], 0.1)
    second = await choice(made)  # the other one has its second, too
    assert isinstance(second, To)
    assert second.provider == "vonage"
    assert isinstance(await choice(made), Wait)


async def test_refused_credentials_open_it_at_once() -> None:
    made, _ = routes(clock=Clock())
    await made.report("twilio", made.phase("twilio"), [ProviderDown("401 credentials refused")], 0.1)
    found = await choice(made)
    assert isinstance(found, To)
    assert found.note is not None
    assert found.note.endswith("the account is refused, the last: 401 credentials refused")


async def test_burst_of_bad_device_tokens_opens_it_P6() -> None:
    made, breakers = routes("push-tx", "apns", clock=Clock())
    bad = Permanent("BadDeviceToken", dead_letter=False, of_account=True)
    await made.report("apns", made.phase("apns"), [bad] * 10, 0.1)
    assert breakers.known(Guarded("apns", MessageClass.TX)).phase is Phase.OPEN
    assert isinstance(await choice(made), Wait)


async def test_slow_calls_count_by_the_lane_s_deadline() -> None:
    made, breakers = routes(clock=Clock())
    half = TX.send_deadline_sec / 2
    await made.report("twilio", made.phase("twilio"), [Accepted("1")] * 100, half)
    assert breakers.known(Guarded("twilio", MessageClass.TX)).phase is Phase.CLOSED
    await made.report("twilio", made.phase("twilio"), [Accepted("1")] * 100, half + 0.1)
    assert breakers.known(Guarded("twilio", MessageClass.TX)).phase is Phase.OPEN


async def test_drains_and_pauses_act_on_the_next_batch() -> None:
    made, _ = routes(clock=Clock())
    drained = Controls(2, drains={"twilio": Drain("twilio", "", "operator ayse", NOW)})
    assert await choice(made, drained) == To("vonage", f"vonage instead of twilio: drained since {NOW:%H:%M:%S} UTC")
    pauses = tuple(
        Pause(UUID(int=n), PauseKind.PROVIDER, name, "", "ayse", NOW) for n, name in enumerate(("twilio", "vonage"))
    )
    assert await choice(made, Controls(3, pauses=pauses[:1])) == To(
        "vonage", f"vonage instead of twilio: paused since {NOW:%H:%M:%S} UTC"
    )
    assert await choice(made, Controls(4, pauses=pauses)) == Held(UUID(int=0))
    assert await choice(made) == To("twilio", None)


async def test_unguarded_provider_is_never_stopped() -> None:
    made, _ = routes(clock=Clock())
    await made.report("simulated", made.phase("simulated"), [Transient("503")] * 100, 0.1)
    assert not made.stops("simulated", made.phase("simulated"))
