"""The chain: every rule over every channel, and what follows from their verdicts (semantics.md section 6)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts, Target
from shared.decision.rules.allow_list import allow_list
from shared.decision.rules.category import category
from shared.decision.rules.consent import consent
from shared.decision.rules.content_window import content_window
from shared.decision.rules.frequency import frequency
from shared.decision.rules.preference import preference
from shared.decision.rules.quiet_hours import quiet_hours, send_until
from shared.decision.rules.reach import reach, ways_around
from shared.decision.rules.schedule import schedule
from shared.decision.rules.suppression import suppression
from shared.decision.rules.template import template
from shared.decision.rules.ttl import ttl
from shared.decision.verdict import GO, Defer, Go, Redirect, Skip, Verdict
from shared.wire.channel import DEFAULT_CHANNELS, Channels, ChannelSpec

_MAY_GO: Final = (Go, Defer)

Rule = Callable[[Facts, ChannelSpec, datetime], Verdict]
TargetRule = Callable[[Facts, ChannelSpec, Target], Go | Skip]

CHANNEL_RULES: Final[tuple[Rule, ...]] = (
    *(category, preference, ttl, template, reach),
    *(content_window, schedule, quiet_hours),
)
"""In the order in which their refusals are told: the user's and the law's word before what we lack."""

TARGET_RULES: Final[tuple[TargetRule, ...]] = (suppression, consent, allow_list)
"""Asked for each target alone, so that one dead device does not silence the others."""

LAST_RULES: Final[tuple[Rule, ...]] = (frequency,)
"""Asked of what would go now: what waits for the morning counts in that day, not in this one."""


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


@dataclass(slots=True)  # not frozen, though nobody changes it: that costs a microsecond of some hundred
class ChannelDecision:
    """One channel's verdict, what led to it, and whom it reaches.

    trail holds every rule's answer in order; the last rules only answer for what would go now. targets are those that
    go: never empty with Go, always empty otherwise. refusals only with Go. redirected_from names the (first) channel
    this one stands in for. send_until (UTC): with Go, when the type's next quiet hours begin; None: it has none.
    """

    channel: str
    verdict: Verdict
    trail: tuple[RuleVerdict, ...]
    targets: tuple[Target, ...] = ()
    refusals: tuple[TargetRefusal, ...] = ()
    redirected_from: str | None = None
    send_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to a notification: deferred as a whole, or decided channel by channel."""

    channels: tuple[ChannelDecision, ...]

    @property
    def defer_until(self) -> datetime | None:
        """The latest hour any channel asks to wait for: Defer is per notification, and all is decided again then."""
        until = [c.verdict.until for c in self.channels if isinstance(c.verdict, Defer)]
        return max(until) if until else None


def _trail(rules: Sequence[Rule], verdicts: Sequence[Verdict]) -> tuple[RuleVerdict, ...]:
    return tuple(RuleVerdict(rule.__name__, verdict) for rule, verdict in zip(rules, verdicts, strict=True))


@dataclass(frozen=True, slots=True)
class Chain:
    """The rules of a decision; one that redirects does so for want of a target only."""

    rules: tuple[Rule, ...] = CHANNEL_RULES
    target_rules: tuple[TargetRule, ...] = TARGET_RULES
    last_rules: tuple[Rule, ...] = LAST_RULES
    plain_trail: tuple[RuleVerdict, ...] = field(init=False)
    """Every rule says Go: by far the most common trail, made once."""

    def __post_init__(self) -> None:
        rules = (*self.rules, *self.last_rules)
        object.__setattr__(self, "plain_trail", _trail(rules, [GO] * len(rules)))


CHAIN: Final = Chain()


def decide(facts: Facts, now: datetime, *, channels: Channels = DEFAULT_CHANNELS, chain: Chain = CHAIN) -> Decision:
    """Decide every channel of a notification, redirections included. Pure; `now` is aware.

    A channel this installation does not have is Skip(config): ingest refuses it, so it was taken away since.
    """
    decided: dict[str, ChannelDecision] = {}
    for name in facts.channels:
        spec = channels.find(name)
        if spec is None:
            decided[name] = ChannelDecision(name, Skip(Reason.CONFIG), ())
            continue
        decision = _decide_channel(facts, spec, now, chain)
        decided[name] = decision
        if isinstance(decision.verdict, Redirect):
            _redirect(facts, decision, decision.verdict.reason, decided, now, channels, chain)
    return Decision(tuple(decided.values()))


def _redirect(
    facts: Facts,
    origin: ChannelDecision,
    reason: Reason,
    decided: dict[str, ChannelDecision],
    now: datetime,
    channels: Channels,
    chain: Chain,
) -> None:
    """Point the origin to the first way around that passes the chain, and skip it where none does.

    Ways that are tried and refused are decided as well: `ulak why` tells of them. Two origins may share a way.
    """
    for way in ways_around(facts):
        if way not in channels:
            continue
        if way not in decided:
            decided[way] = replace(
                _decide_channel(facts, channels.spec(way), now, chain), redirected_from=origin.channel
            )
        if not isinstance(decided[way].verdict, Skip):
            decided[origin.channel] = replace(origin, verdict=Redirect(way, reason))
            return
    decided[origin.channel] = replace(origin, verdict=Skip(reason))


def _decide_channel(facts: Facts, channel: ChannelSpec, now: datetime, chain: Chain) -> ChannelDecision:
    name = channel.name
    verdicts = [rule(facts, channel, now) for rule in chain.rules]
    verdict = _strongest(verdicts)
    if isinstance(verdict, Defer) and verdict.until >= facts.expires_at:
        verdict = Skip(Reason.EXPIRED)  # it could only ever expire while it waits
    if not isinstance(verdict, _MAY_GO):
        return ChannelDecision(name, verdict, _trail(chain.rules, verdicts))
    going: list[Target] = []
    refusals: list[TargetRefusal] = []
    for target in facts.targets[name]:
        refusal = _refusal(facts, channel, target, chain.target_rules)
        if refusal is None:
            going.append(target)
        else:
            refusals.append(refusal)
    if not going:  # told at once, even if it would have waited
        refused = Skip(refusals[0].reason)
        step = RuleVerdict(refusals[0].rule, refused)
        return ChannelDecision(name, refused, (*_trail(chain.rules, verdicts), step))
    if isinstance(verdict, Defer):
        return ChannelDecision(name, verdict, _trail(chain.rules, verdicts))
    last = [rule(facts, channel, now) for rule in chain.last_rules]
    verdict = _strongest(last)
    if not isinstance(verdict, Go):
        return ChannelDecision(name, verdict, _trail((*chain.rules, *chain.last_rules), (*verdicts, *last)))
    until = None if facts.type.quiet_hours is None else send_until(facts, now)
    return ChannelDecision(name, GO, chain.plain_trail, tuple(going), tuple(refusals), send_until=until)


def _strongest(verdicts: Sequence[Verdict]) -> Verdict:
    """A refusal before all (the first one), then Redirect, then the longest Defer, then Go."""
    if verdicts.count(GO) == len(verdicts):
        return GO
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
