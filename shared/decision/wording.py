"""Decisions in plain words, for dry runs and `ulak why`, in each language that there are phrases for. Pure."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from shared.core.lifecycle import OWN_FAULTS, Reason
from shared.decision.chain import ChannelDecision, RuleVerdict
from shared.decision.english import ENGLISH
from shared.decision.phrase import Phrases
from shared.decision.turkish import TURKISH
from shared.decision.verdict import Defer, Go, Redirect, Skip


class Language(StrEnum):
    """BCP 47 tags of the languages."""

    ENGLISH = "en"
    TURKISH = "tr"

    @property
    def phrases(self) -> Phrases:
        return _PHRASES[self]


_REASONS: Final = frozenset(Reason)
_PHRASES: Final[Mapping[Language, Phrases]] = {Language.ENGLISH: ENGLISH, Language.TURKISH: TURKISH}


def tell_channel(channel: ChannelDecision, language: Language) -> str:
    """What happens on a channel, in one sentence; names no address."""
    phrases, verdict = language.phrases, channel.verdict
    origin = channel.redirected_from
    instead = "" if origin is None else phrases.instead_of.format(origin=origin)
    match verdict:
        case Go():
            return phrases.goes.format(what=channel.channel, instead=instead)
        case Skip(reason):
            return phrases.skips.format(what=channel.channel, instead=instead, why=because(reason, phrases))
        case Defer(until, reason):
            why = because(reason, phrases)
            return phrases.waits.format(what=channel.channel, until=moment(until), instead=instead, why=why)
        case Redirect(other, reason):
            return phrases.redirected.format(what=channel.channel, other=other, why=because(reason, phrases))


def because(reason: str | None, phrases: Phrases) -> str:
    """`, because ...`, or nothing without a reason. A word that this release does not know is passed on, not lost."""
    if reason is None:
        return ""
    return phrases.because.format(clause=phrases.reasons[Reason(reason)] if reason in _REASONS else reason)


def to_mend(reason: str | None, detail: str | None, phrases: Phrases) -> str:
    """Sentences that follow: what was met and what to do, where the fault is our own; nothing where it is not.

    detail: as it was stored. A provider's own words are an operator's alone and are not repeated.
    """
    if reason not in OWN_FAULTS:
        return ""
    met = phrases.met.format(detail=detail.rstrip(".")) if detail else ""
    return f"{met} {phrases.remedies[Reason(reason)]}"


def own_detail(reason: str | None, detail: str | None) -> str | None:
    """A stored detail where the fault is our own, so that whoever asks may know it."""
    return detail if reason in OWN_FAULTS else None


def moment(at: datetime) -> str:
    """A moment as sentences tell it."""
    return at.isoformat(sep=" ", timespec="seconds")


def tell_step(step: RuleVerdict, language: Language) -> str:
    """What one rule said, in one sentence."""
    phrases, verdict = language.phrases, step.verdict
    rule = phrases.rules.get(step.rule, step.rule)
    match verdict:
        case Go():
            return phrases.rule_goes.format(rule=rule)
        case Skip(reason):
            return phrases.rule_refuses.format(rule=rule, why=because(reason, phrases))
        case Defer(until, reason):
            return phrases.rule_waits.format(rule=rule, until=moment(until), why=because(reason, phrases))
        case Redirect(_, reason):
            return phrases.rule_redirects.format(rule=rule, why=because(reason, phrases))
