"""The chain: every rule over every channel, and what follows from their verdicts (semantics.md section 6)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts, Target
from shared.decision.rules.allow_list import allow_list
from shared.decision.rules.category import category
from shared.decision.rules.preference import preference
from shared.decision.rules.reach import reach
from shared.decision.rules.schedule import schedule
from shared.decision.rules.suppression import suppression
from shared.decision.rules.template import template
from shared.decision.rules.ttl import ttl
from shared.decision.verdict import GO, Defer, Go, Redirect, Skip, Verdict
from shared.wire.channel import DEFAULT_CHANNELS, Channels, ChannelSpec

Rule = Callable[[Facts, ChannelSpec, datetime], Verdict]
TargetRule = Callable[[Facts, ChannelSpec, Target], Go | Skip]

CHANNEL_RULES: Final[tuple[Rule, ...]] = (category, preference, ttl, template, reach, schedule)
"""In the order in which their refusals are told: the user's and the law's word before what we lack."""

TARGET_RULES: Final[tuple[TargetRule, ...]] = (suppression, allow_list)
"""Asked for each target alone, so that one dead device does not silence the others."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What one rule said; `rule` is its function's name."""

    rule: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TargetRefusal:
    """A target that is left out although its channel goes."""

    target: Target
    rule: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class ChannelDecision:
    """One channel's verdict, what led to it, and whom it reaches.

    trail holds every rule's answer in order. targets are those that go: never empty with Go, always empty otherwise.
    refusals only with Go. redirected_from names the channel this one stands in for.
    """

    channel: str
    verdict: Verdict
    trail: tuple[RuleVerdict, ...]
    targets: tuple[Target, ...] = ()
    refusals: tuple[TargetRefusal, ...] = ()
    redirected_from: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to a notification: deferred as a whole, or decided channel by channel."""

    channels: tuple[ChannelDecision, ...]

    @property
    def defer_until(self) -> datetime | None:
        """The latest hour any channel asks to wait for: Defer is per notification, and all is decided again then."""
        return max((c.verdict.until for c in self.channels if isinstance(c.verdict, Defer)), default=None)


def decide(
    facts: Facts,
    now: datetime,
    *,
    channels: Channels = DEFAULT_CHANNELS,
    rules: Sequence[Rule] = CHANNEL_RULES,
    target_rules: Sequence[TargetRule] = TARGET_RULES,
) -> Decision:
    """Decide every channel of a notification, redirections included. Pure; `now` is aware.

    A channel this installation does not have is Skip(config): ingest refuses it, so it was taken away since.
    """
    decided: list[ChannelDecision] = []
    for name in facts.channels:
        if name not in channels:
            decided.append(ChannelDecision(name, Skip(Reason.CONFIG), ()))
            continue
        decision = _decide_channel(facts, channels.spec(name), now, rules, target_rules)
        if isinstance(decision.verdict, Redirect):
            decided += _redirected(facts, decision, decision.verdict, now, channels, rules, target_rules)
        else:
            decided.append(decision)
    return Decision(tuple(decided))


def _redirected(
    facts: Facts,
    origin: ChannelDecision,
    redirect: Redirect,
    now: datetime,
    channels: Channels,
    rules: Sequence[Rule],
    target_rules: Sequence[TargetRule],
) -> Iterable[ChannelDecision]:
    """The origin, and the channel it points to where that one passes the chain; else only the origin, skipped."""
    skipped = ChannelDecision(origin.channel, Skip(redirect.reason), origin.trail)
    if redirect.channel not in channels:
        return (skipped,)
    other = _decide_channel(facts, channels.spec(redirect.channel), now, rules, target_rules)
    if isinstance(other.verdict, Redirect):
        other = ChannelDecision(other.channel, Skip(other.verdict.reason), other.trail)
    other = ChannelDecision(
        other.channel, other.verdict, other.trail, other.targets, other.refusals, redirected_from=origin.channel
    )
    return (skipped, other) if isinstance(other.verdict, Skip) else (origin, other)


def _decide_channel(
    facts: Facts,
    channel: ChannelSpec,
    now: datetime,
    rules: Sequence[Rule],
    target_rules: Sequence[TargetRule],
) -> ChannelDecision:
    verdicts = [rule(facts, channel, now) for rule in rules]
    plain = all(verdict is GO for verdict in verdicts)
    trail = _plain_trail(tuple(rules)) if plain else tuple(map(_step, rules, verdicts))
    verdict = GO if plain else _strongest(verdicts)
    if isinstance(verdict, Defer) and verdict.until >= facts.expires_at:
        verdict = Skip(Reason.EXPIRED)  # it could only ever expire while it waits
    if not isinstance(verdict, Go):
        return ChannelDecision(channel.name, verdict, trail)
    going: list[Target] = []
    refusals: list[TargetRefusal] = []
    for target in facts.targets[channel.name]:
        refusal = _refusal(facts, channel, target, target_rules)
        if refusal is None:
            going.append(target)
        else:
            refusals.append(refusal)
    if not going:
        first = refusals[0]
        refused = Skip(first.reason)
        return ChannelDecision(channel.name, refused, (*trail, RuleVerdict(first.rule, refused)))
    return ChannelDecision(channel.name, GO, trail, tuple(going), tuple(refusals))


def _step(rule: Rule, verdict: Verdict) -> RuleVerdict:
    return RuleVerdict(rule.__name__, verdict)


@lru_cache(maxsize=64)
def _plain_trail(rules: tuple[Rule, ...]) -> tuple[RuleVerdict, ...]:
    """Every rule says Go: by far the most common trail, made once."""
    return tuple(RuleVerdict(rule.__name__, GO) for rule in rules)


def _strongest(verdicts: Sequence[Verdict]) -> Verdict:
    """A refusal before all (the first one), then Redirect, then the longest Defer, then Go."""
    for verdict in verdicts:
        if isinstance(verdict, Skip):
            return verdict
    for verdict in verdicts:
        if isinstance(verdict, Redirect):
            return verdict
    deferrals = [verdict for verdict in verdicts if isinstance(verdict, Defer)]
    return max(deferrals, key=lambda deferral: deferral.until) if deferrals else GO


def _refusal(
    facts: Facts, channel: ChannelSpec, target: Target, target_rules: Sequence[TargetRule]
) -> TargetRefusal | None:
    for rule in target_rules:
        verdict = rule(facts, channel, target)
        if isinstance(verdict, Skip):
            return TargetRefusal(target, rule.__name__, verdict.reason)
    return None
