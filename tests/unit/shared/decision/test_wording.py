"""The chain in plain words: every reason and verdict in every language, and the same facts in each."""

import string
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.core.lifecycle import OWN_FAULTS, DeliveryStatus, Reason
from shared.decision.chain import CHAIN, CHANNEL_RULES, LAST_RULES, TARGET_RULES, ChannelDecision, RuleVerdict, decide
from shared.decision.phrase import Phrases
from shared.decision.verdict import GO, Defer, Redirect, Skip, Verdict
from shared.decision.wording import Language, because, tell_channel, tell_step
from tests.unit.shared.decision.sample import CONSENTS, FACTS, HOUR, MAIL, NOW, PHONE, SALE

NINE = datetime(2026, 1, 16, 9, 0, tzinfo=UTC)
EVERY_RULE = [rule.__name__ for rule in (*CHANNEL_RULES, *TARGET_RULES, *LAST_RULES)]
LANGUAGES = pytest.mark.parametrize("language", Language)


def verdicts(reason: Reason) -> list[Verdict]:
    return [Skip(reason), Defer(NINE, reason), Redirect("EMAIL", reason)]


@LANGUAGES
@pytest.mark.parametrize("reason", Reason)
def test_every_reason_and_verdict_has_its_sentence(reason: Reason, language: Language) -> None:
    clause = language.phrases.reasons[reason]
    for verdict in verdicts(reason):
        for told in (
            tell_channel(ChannelDecision("PUSH", verdict, ()), language),
            tell_step(RuleVerdict("reach", verdict), language),
        ):
            assert clause in told
            assert told.endswith(".")
            assert "{" not in told


@LANGUAGES
def test_what_goes_has_its_sentence(language: Language) -> None:
    assert "PUSH" in tell_channel(ChannelDecision("PUSH", GO, CHAIN.plain_trail, (PHONE,)), language)
    assert all(tell_step(step, language).endswith(".") for step in CHAIN.plain_trail)


@LANGUAGES
def test_every_fault_of_our_own_has_its_remedy(language: Language) -> None:
    assert set(language.phrases.remedies) == OWN_FAULTS


@LANGUAGES
def test_every_rule_has_its_name(language: Language) -> None:
    assert set(language.phrases.rules) == set(EVERY_RULE)
    assert len(set(language.phrases.rules.values())) == len(EVERY_RULE)


@LANGUAGES
def test_every_status_has_its_word(language: Language) -> None:
    assert set(language.phrases.statuses) == set(DeliveryStatus)


def test_languages_say_the_same() -> None:
    """The same keys, and in each phrase the same names to be filled in."""
    english = dict(_named(Language.ENGLISH.phrases))
    turkish = dict(_named(Language.TURKISH.phrases))
    assert english == turkish


def _named(phrases: Phrases) -> Iterator[tuple[str, set[str]]]:
    for field in fields(phrases):
        value: Any = getattr(phrases, field.name)
        entries: Mapping[str, str] = value if isinstance(value, dict) else {"": value}
        for key, text in entries.items():
            names = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
            # An outcome need not name who said it; one attempt is one without being counted.
            optional = {"by"} if field.name in {"outcomes", "receipts"} else {"count"}
            yield f"{field.name}.{key}", names - optional


@pytest.mark.parametrize(
    ("verdict", "english", "turkish"),
    [
        pytest.param(GO, "PUSH will be sent.", "PUSH gönderilecek.", id="go"),
        pytest.param(
            Skip(Reason.NO_CONSENT),
            "PUSH will not be sent, because there is no consent to marketing on this channel.",
            "PUSH gönderilmeyecek, çünkü bu kanalda pazarlama iletileri için onay yok.",
            id="skip",
        ),
        pytest.param(
            Defer(NINE, Reason.QUIET_HOURS),
            (
                "PUSH is held back until 2026-01-16 09:00:00+00:00, "
                "because it would have arrived in the user's quiet hours."
            ),
            (
                "PUSH en erken 2026-01-16 09:00:00+00:00 tarihinde gönderilecek, "
                "çünkü kullanıcının sessiz saatlerine denk geliyor."
            ),
            id="defer",
        ),
        pytest.param(
            Redirect("EMAIL", Reason.NO_TARGET),
            "PUSH goes to EMAIL instead, because the user has no address or device for this channel.",
            "PUSH yerine EMAIL kullanılacak, çünkü kullanıcının bu kanal için kayıtlı bir adresi ya da cihazı yok.",
            id="redirect",
        ),
    ],
)
def test_channels(verdict: Verdict, english: str, turkish: str) -> None:
    channel = ChannelDecision("PUSH", verdict, ())
    assert tell_channel(channel, Language.ENGLISH) == english
    assert tell_channel(channel, Language.TURKISH) == turkish


def test_a_chain_from_end_to_end() -> None:
    facts = replace(FACTS, type=SALE, consented=CONSENTS, preferences={"PUSH": False}, expires_at=NOW + HOUR)
    (push,) = decide(facts, NOW).channels
    assert [tell_step(step, Language.TURKISH) for step in push.trail][:3] == [
        "Pazarlama onayı: engel yok.",
        "Kullanıcının tercihi: gönderilmez, çünkü kullanıcı bu tür iletileri bu kanalda kapatmış.",
        "Geçerlilik süresi: engel yok.",
    ]


def test_the_fallback_says_for_whom_it_stands_in() -> None:
    _, mail = decide(replace(FACTS, asked=("PUSH",), targets={"EMAIL": (MAIL,)}), NOW).channels
    assert tell_channel(mail, Language.ENGLISH) == "EMAIL will be sent in place of PUSH."
    assert tell_channel(mail, Language.TURKISH) == "EMAIL gönderilecek (PUSH yerine)."


@LANGUAGES
def test_a_word_that_is_not_known_yet_is_passed_on(language: Language) -> None:
    assert "moon_phase" in because("moon_phase", language.phrases)
    assert because(None, language.phrases) == ""
