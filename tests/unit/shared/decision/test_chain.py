"""The decision, case by case. The right answers are those of seed 003's rule chain, worked out by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import Reason
from shared.decision.chain import CHAIN, Chain, ChannelDecision, Decision, decide
from shared.decision.facts import Facts, Mode
from shared.decision.verdict import GO, Defer, Go, Redirect, Skip, Verdict
from shared.wire.channel import ADDRESSED, DEFAULT_CHANNELS, Category
from tests.unit.shared.decision.sample import (
    CONSENTS,
    FACTS,
    HOUR,
    MAIL,
    NOW,
    NUMBER,
    OTP,
    PHONE,
    SALE,
    SHIPPED,
    TABLET,
    USER,
)

BY_SMS_TOO = replace(SHIPPED, fallback_channels=("EMAIL", "SMS"))
TO_MAIL = {"EMAIL": (MAIL,)}
TO_PIGEON = {"PIGEON": (MAIL,)}
OTHER = UUID(int=2)


def verdicts(decision: Decision) -> dict[str, Verdict]:
    return {channel.channel: channel.verdict for channel in decision.channels}


def only(decision: Decision) -> ChannelDecision:
    (channel,) = decision.channels
    return channel


def skip(reason: Reason) -> Skip:
    return Skip(reason)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(FACTS, {"PUSH": GO, "EMAIL": GO}, id="default-channels"),
        pytest.param(replace(FACTS, asked=("SMS",)), {"SMS": GO}, id="the-callers-channels"),
        pytest.param(replace(FACTS, asked=("SMS", "SMS")), {"SMS": GO}, id="a-channel-named-twice-counts-once"),
        pytest.param(
            replace(FACTS, preferences={"PUSH": False}),
            {"PUSH": skip(Reason.PREFERENCE), "EMAIL": GO},
            id="push-switched-off-the-mail-still-goes",
        ),
        pytest.param(
            replace(FACTS, type=OTP, preferences={"SMS": False}), {"SMS": GO}, id="security-ignores-preferences"
        ),
        pytest.param(replace(FACTS, type=SALE), {"PUSH": skip(Reason.NO_CONSENT)}, id="marketing-without-consent"),
        pytest.param(replace(FACTS, type=SALE, consented=CONSENTS), {"PUSH": GO}, id="marketing-with-both"),
        pytest.param(
            replace(FACTS, type=SALE, consented=frozenset({("EMAIL", MAIL.key)})),
            {"PUSH": skip(Reason.NO_CONSENT)},
            id="consent-is-per-channel",
        ),
        pytest.param(
            replace(FACTS, type=SALE, consented=frozenset({("PUSH", USER)}), preferences={"PUSH": False}),
            {"PUSH": skip(Reason.PREFERENCE)},
            id="marketing-needs-both-preference-and-consent",
        ),
        pytest.param(
            replace(FACTS, expires_at=NOW),
            {"PUSH": skip(Reason.EXPIRED), "EMAIL": skip(Reason.EXPIRED)},
            id="expired-at-the-instant-itself",
        ),
        pytest.param(
            replace(FACTS, expires_at=NOW + timedelta(microseconds=1)), {"PUSH": GO, "EMAIL": GO}, id="just-in-time"
        ),
        pytest.param(
            replace(FACTS, templates=frozenset({"EMAIL"})),
            {"PUSH": skip(Reason.NO_TEMPLATE), "EMAIL": GO},
            id="no-template-on-one-channel",
        ),
        pytest.param(
            replace(FACTS, targets={}),
            {"PUSH": skip(Reason.NO_TARGET), "EMAIL": skip(Reason.NO_TARGET)},
            id="nowhere-to-send",
        ),
        pytest.param(
            replace(FACTS, targets={"EMAIL": (MAIL,)}),
            {"PUSH": skip(Reason.NO_TARGET), "EMAIL": GO},
            id="no-device-but-the-mail-was-asked-for-anyway",
        ),
        pytest.param(
            replace(FACTS, asked=("PUSH",), targets={"EMAIL": (MAIL,)}),
            {"PUSH": Redirect("EMAIL", Reason.NO_TARGET), "EMAIL": GO},
            id="no-device-falls-back-to-mail",
        ),
        pytest.param(
            replace(FACTS, asked=("PUSH",), targets={}), {"PUSH": skip(Reason.NO_TARGET)}, id="no-fallback-target"
        ),
        pytest.param(
            replace(FACTS, asked=("PUSH",), targets={"EMAIL": (MAIL,)}, preferences={"PUSH": False}),
            {"PUSH": skip(Reason.PREFERENCE)},
            id="never-around-a-refusal",
        ),
        pytest.param(
            replace(FACTS, asked=("PUSH",), targets={"EMAIL": (MAIL,)}, preferences={"EMAIL": False}),
            {"PUSH": skip(Reason.NO_TARGET), "EMAIL": skip(Reason.PREFERENCE)},
            id="into-a-channel-that-passes-the-chain-only",
        ),
        pytest.param(
            replace(FACTS, type=BY_SMS_TOO, asked=("PUSH",), targets={"SMS": (NUMBER,)}),
            {"PUSH": Redirect("SMS", Reason.NO_TARGET), "SMS": GO},
            id="no-device-no-mail-goes-by-sms-where-the-type-pays-for-it",
        ),
        pytest.param(
            replace(FACTS, asked=("PUSH",), targets={"SMS": (NUMBER,)}),
            {"PUSH": skip(Reason.NO_TARGET)},
            id="sms-costs-so-it-is-no-default",
        ),
        pytest.param(
            replace(FACTS, type=BY_SMS_TOO, asked=("PUSH",), targets={"EMAIL": (MAIL,), "SMS": (NUMBER,)}),
            {"PUSH": Redirect("EMAIL", Reason.NO_TARGET), "EMAIL": GO},
            id="the-first-way-around-that-there-is",
        ),
        pytest.param(
            replace(
                FACTS,
                type=BY_SMS_TOO,
                asked=("PUSH",),
                targets={"EMAIL": (MAIL,), "SMS": (NUMBER,)},
                suppressed=frozenset({("EMAIL", MAIL.key)}),
            ),
            {"PUSH": Redirect("SMS", Reason.NO_TARGET), "EMAIL": skip(Reason.SUPPRESSED), "SMS": GO},
            id="the-first-that-passes-the-chain",
        ),
        pytest.param(
            replace(FACTS, type=replace(SHIPPED, fallback_channels=("EMAIL",)), asked=("PUSH", "SMS"), targets=TO_MAIL),
            {
                "PUSH": Redirect("EMAIL", Reason.NO_TARGET),
                "EMAIL": GO,
                "SMS": Redirect("EMAIL", Reason.NO_TARGET),
            },
            id="two-ways-to-the-same-mail-send-it-once",
        ),
        pytest.param(
            replace(FACTS, type=replace(SHIPPED, fallback_channels=("PIGEON",)), asked=("PUSH",), targets=TO_PIGEON),
            {"PUSH": skip(Reason.NO_TARGET)},
            id="a-way-that-was-taken-away",
        ),
        pytest.param(
            replace(FACTS, type=BY_SMS_TOO, asked=("PUSH", "EMAIL"), targets={"SMS": (NUMBER,)}, duplicate_of=OTHER),
            {"PUSH": skip(Reason.DUPLICATE_CONTENT), "EMAIL": skip(Reason.DUPLICATE_CONTENT)},
            id="no-way-around-a-duplicate",
        ),
        pytest.param(
            replace(FACTS, type=OTP, asked=("PUSH",), targets={"EMAIL": (MAIL,)}),
            {"PUSH": skip(Reason.NO_TARGET)},
            id="security-does-not-wander",
        ),
        pytest.param(
            replace(FACTS, asked=("PIGEON", "SMS")), {"PIGEON": skip(Reason.CONFIG), "SMS": GO}, id="unknown-channel"
        ),
    ],
)
def test_verdicts(facts: Facts, expected: dict[str, Verdict]) -> None:
    decision = decide(facts, NOW)
    assert verdicts(decision) == expected
    assert decision.defer_until is None


def test_push_goes_to_every_active_device() -> None:
    push = decide(FACTS, NOW).channels[0]
    assert push.targets == (PHONE, TABLET)


def test_the_fallback_says_for_whom_it_stands_in() -> None:
    facts = replace(FACTS, asked=("PUSH",), targets={"EMAIL": (MAIL,)})
    push, mail = decide(facts, NOW).channels
    assert (push.targets, mail.targets, mail.redirected_from) == ((), (MAIL,), "PUSH")


def test_one_suppressed_device_does_not_silence_the_other() -> None:
    push = only(decide(replace(FACTS, asked=("PUSH",), suppressed=frozenset({("PUSH", PHONE.key)})), NOW))
    assert push.verdict == GO
    assert push.targets == (TABLET,)
    assert [(refusal.target, refusal.reason) for refusal in push.refusals] == [(PHONE, Reason.SUPPRESSED)]


def test_a_channel_whose_targets_are_all_suppressed_is_skipped_and_not_redirected() -> None:
    suppressed = frozenset({("PUSH", PHONE.key), ("PUSH", TABLET.key)})
    push = only(decide(replace(FACTS, asked=("PUSH",), suppressed=suppressed), NOW))
    assert push.verdict == Skip(Reason.SUPPRESSED)
    assert push.targets == ()


def test_a_suppression_holds_on_its_own_channel_only() -> None:
    sms = only(decide(replace(FACTS, asked=("SMS",), suppressed=frozenset({("EMAIL", NUMBER.key)})), NOW))
    assert sms.verdict == GO


@pytest.mark.parametrize(
    ("mode", "allow_list", "verdict"),
    [
        pytest.param(Mode.TEAM, frozenset({MAIL.key}), GO, id="team-on-the-list"),
        pytest.param(Mode.TEAM, frozenset({PHONE.key}), Skip(Reason.NOT_ON_ALLOW_LIST), id="team-off-the-list"),
        pytest.param(Mode.TEAM, frozenset(), Skip(Reason.NOT_ON_ALLOW_LIST), id="team-with-no-list"),
        pytest.param(Mode.LIVE, frozenset(), GO, id="live-needs-no-list"),
        pytest.param(Mode.TEST, frozenset(), GO, id="test-needs-no-list"),
    ],
)
def test_modes(mode: Mode, allow_list: frozenset[bytes], verdict: Verdict) -> None:
    facts = replace(FACTS, asked=("EMAIL",), mode=mode, allow_list=allow_list)
    assert only(decide(facts, NOW)).verdict == verdict


def test_a_simulated_message_is_kept_by_no_suppression() -> None:
    facts = replace(FACTS, asked=("EMAIL",), mode=Mode.TEST, suppressed=frozenset({("EMAIL", MAIL.key)}))
    assert only(decide(facts, NOW)).verdict == GO


class TestDeferral:
    def test_a_scheduled_message_waits_for_its_hour(self) -> None:
        decision = decide(replace(FACTS, send_at=NOW + timedelta(minutes=5)), NOW)
        assert decision.defer_until == NOW + timedelta(minutes=5)

    def test_at_its_hour_it_goes(self) -> None:
        assert decide(replace(FACTS, send_at=NOW), NOW).defer_until is None

    def test_a_refusal_is_told_at_once_even_if_another_channel_waits(self) -> None:
        facts = replace(FACTS, send_at=NOW + timedelta(minutes=5), preferences={"PUSH": False})
        assert verdicts(decide(facts, NOW))["PUSH"] == Skip(Reason.PREFERENCE)

    def test_when_every_channel_is_refused_nothing_waits(self) -> None:
        facts = replace(FACTS, asked=("PUSH",), send_at=NOW + timedelta(minutes=5), preferences={"PUSH": False})
        assert decide(facts, NOW).defer_until is None

    def test_waiting_past_the_expiry_is_expiring(self) -> None:
        facts = replace(FACTS, asked=("SMS",), send_at=FACTS.expires_at)
        assert only(decide(facts, NOW)).verdict == Skip(Reason.EXPIRED)

    def test_a_refusal_of_every_target_is_told_at_once_too(self) -> None:
        facts = replace(FACTS, asked=("EMAIL",), send_at=NOW + HOUR / 2, suppressed=frozenset({("EMAIL", MAIL.key)}))
        assert only(decide(facts, NOW)).verdict == Skip(Reason.SUPPRESSED)

    def test_what_waits_for_the_morning_is_not_counted_in_this_day(self) -> None:
        """22:30 with all of today's pushes had: at nine it is another day."""
        night = datetime(2026, 1, 15, 22, 30, tzinfo=UTC)
        facts = replace(FACTS, type=SALE, consented=CONSENTS, caps={"PUSH": 3}, sent_today={"PUSH": 3})
        assert only(decide(replace(facts, expires_at=NOW + 24 * HOUR), NOW)).verdict == Skip(Reason.CAPPED)
        waits = only(decide(replace(facts, expires_at=night + 24 * HOUR), night)).verdict
        assert isinstance(waits, Defer)
        assert waits.reason is Reason.QUIET_HOURS

    def test_a_fallback_waits_like_any_channel(self) -> None:
        facts = replace(FACTS, asked=("PUSH",), targets=TO_MAIL, send_at=NOW + HOUR / 2)
        push, mail = decide(facts, NOW).channels
        assert push.verdict == Redirect("EMAIL", Reason.NO_TARGET)
        assert mail.verdict == Defer(NOW + HOUR / 2, Reason.SCHEDULED)

    def test_the_latest_hour_counts(self) -> None:
        def until(minutes: int) -> Defer:
            return Defer(NOW + timedelta(minutes=minutes), Reason.QUIET_HOURS)

        def early(*_args: object) -> Verdict:
            return until(10)

        def late(*_args: object) -> Verdict:
            return until(30)

        decision = decide(FACTS, NOW, chain=Chain(rules=(late, early)))
        assert decision.defer_until == NOW + timedelta(minutes=30)


def test_every_rules_answer_is_kept_in_order() -> None:
    push = decide(replace(FACTS, preferences={"PUSH": False}), NOW).channels[0]
    assert [(step.rule, step.verdict) for step in push.trail] == [
        ("category", GO),
        ("preference", Skip(Reason.PREFERENCE)),
        ("ttl", GO),
        ("template", GO),
        ("reach", GO),
        ("content_window", GO),
        ("schedule", GO),
        ("quiet_hours", GO),
    ]


def test_of_what_goes_the_last_rules_are_asked_too() -> None:
    assert [step.rule for step in decide(FACTS, NOW).channels[0].trail][-2:] == ["quiet_hours", "frequency"]


CHANNEL_NAMES = st.sampled_from(["PUSH", "EMAIL", "SMS", "INBOX"])
TYPES = st.builds(
    replace,
    st.sampled_from([SHIPPED, OTP, SALE]),
    fallback_channels=st.lists(CHANNEL_NAMES | st.just("PIGEON"), unique=True).map(tuple),
)


@given(
    facts=st.builds(
        replace,
        st.just(FACTS),
        type=TYPES,
        mode=st.sampled_from(Mode),
        asked=st.none() | st.lists(CHANNEL_NAMES | st.just("PIGEON"), max_size=4).map(tuple),
        expires_at=st.sampled_from([NOW - HOUR, NOW, NOW + HOUR, NOW + 48 * HOUR]),
        send_at=st.none() | st.sampled_from([NOW - HOUR, NOW + HOUR / 2, NOW + HOUR * 2]),
        targets=st.dictionaries(
            CHANNEL_NAMES | st.just("PIGEON"),
            st.lists(st.sampled_from([PHONE, TABLET, MAIL]), max_size=3, unique=True).map(tuple),
        ),
        templates=st.frozensets(CHANNEL_NAMES),
        preferences=st.dictionaries(CHANNEL_NAMES, st.booleans()),
        suppressed=st.frozensets(st.tuples(st.sampled_from(["PUSH", "EMAIL"]), st.sampled_from([b"phone", b"mail"]))),
        consented=st.frozensets(st.tuples(CHANNEL_NAMES, st.sampled_from([b"phone", b"tablet", b"mail", USER]))),
        user_subject=st.none() | st.just(USER),
        allow_list=st.frozensets(st.sampled_from([b"phone", b"tablet", b"mail"])),
        duplicate_of=st.none() | st.just(OTHER),
        caps=st.dictionaries(CHANNEL_NAMES, st.integers(0, 3)),
        sent_today=st.dictionaries(CHANNEL_NAMES, st.integers(0, 4)),
        zone=st.sampled_from([None, "Europe/Istanbul", "Pacific/Kiritimati", "America/Los_Angeles", "Mars/Olympus"]),
    )
)
def test_whatever_the_facts_a_decision_keeps_its_word(facts: Facts) -> None:
    """Each channel once; Go has targets and breaks no rule; nothing else has any; marketing never without consent."""
    decision = decide(facts, NOW)
    names = [channel.channel for channel in decision.channels]
    assert len(names) == len(set(names))
    assert set(facts.channels) <= set(names)
    for channel in decision.channels:
        assert bool(channel.targets) == isinstance(channel.verdict, Go)
        if isinstance(channel.verdict, Go):
            assert all(isinstance(step.verdict, Go) for step in channel.trail)
            assert channel.trail == CHAIN.plain_trail
            assert facts.expires_at > NOW
            assert (channel.send_until is None) == (facts.type.category is not Category.MARKETING)
            if facts.type.category is Category.MARKETING:
                by_address = DEFAULT_CHANNELS.spec(channel.channel).address_kind in ADDRESSED
                assert all((channel.channel, t.key if by_address else USER) in facts.consented for t in channel.targets)
            if facts.mode is not Mode.TEST:
                assert facts.duplicate_of is None
                assert facts.sent_today.get(channel.channel, 0) < facts.caps.get(channel.channel, 10)
        else:
            assert channel.send_until is None
        if isinstance(channel.verdict, Redirect):
            assert channel.verdict.channel in facts.type.fallback_channels
            assert not isinstance(verdicts(decision)[channel.verdict.channel], Skip)
            assert not facts.targets.get(channel.channel)
    if decision.defer_until is not None:
        assert NOW < decision.defer_until < facts.expires_at
    assert decide(facts, NOW) == decision
