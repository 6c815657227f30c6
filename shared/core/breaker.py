"""When a provider account is left alone, and how it comes back: CLOSED -> OPEN -> HALF_OPEN -> CLOSED. Pure.

Seed 004, section 4, and semantics.md, section 5. `shared/redis_store/breaker.lua` is the same for all workers together;
a test holds the two against each other. All times are milliseconds since 1970, and whole numbers, so that both agree.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple

from shared.core.outcome import Accepted, Ambiguous, Outcome, Permanent, ProviderDown, TargetGone, Transient

SLOTS: Final = 10
"""The window moves on by tenths."""
DETAIL_CHARS: Final = 100
_FIRST_SHARE: Final = 0.1
"""Of its traffic, what an account gets back at once when its breaker closes."""


class Phase(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Mark(StrEnum):
    """What one outcome says about the account, not about the message."""

    OK = "ok"
    FAILED = "failed"
    SLOW = "slow"
    REFUSED = "refused"


class Run(NamedTuple):
    """So many outcomes in turn that said the same."""

    mark: Mark
    times: int


@dataclass(frozen=True, slots=True)
class Policy:
    """When a breaker opens and closes.

    failures_in_row is seed 004's; because 10 in all is a millisecond of a campaign, a rate of failed or of slow calls
    opens it, too, once there were min_calls within the window. An account that refuses us is left alone at once.
    After open_ms as many as `probes` may try within each probe_every_ms; when as many have worked, it is closed, and
    gets its traffic back over recovery_ms.
    """

    failures_in_row: int = 10
    window_ms: int = 10_000
    min_calls: int = 100
    rate_percent: int = 50
    open_ms: int = 300_000
    probes: int = 5
    probe_every_ms: int = 1_000
    recovery_ms: int = 60_000


class Slot(NamedTuple):
    """One tenth of the window; number is its place in time."""

    number: int
    calls: int
    failed: int
    slow: int


class Switch(NamedTuple):
    """A change of phase, with its reason in words."""

    before: Phase
    after: Phase
    reason: str


@dataclass(frozen=True, slots=True)
class Breaker:
    """Of one account and class. since: when it came into its phase; no two of its phases begin in the same moment.

    until: when an open one may be tried. probe_at: when the next probes may go. wins: probes that worked.
    """

    phase: Phase = Phase.CLOSED
    since: int = 0
    reason: str = ""
    failures: int = 0
    window: tuple[Slot, ...] = ()
    until: int = 0
    probe_at: int = 0
    wins: int = 0

    def free_at(self) -> int:
        """When it is worth another look."""
        match self.phase:
            case Phase.CLOSED:
                return 0
            case Phase.OPEN:
                return self.until
            case Phase.HALF_OPEN:
                return self.probe_at

    def share(self, policy: Policy, now: int) -> float:
        """Which part of its traffic a closed one gets, rising from a tenth to all after it was open."""
        passed = now - self.since
        if not self.since or passed >= policy.recovery_ms:
            return 1.0
        return _FIRST_SHARE + (1 - _FIRST_SHARE) * max(0, passed) / policy.recovery_ms

    def settled(self, policy: Policy, now: int) -> bool:
        """Whether it is closed, and has all of its traffic."""
        return self.phase is Phase.CLOSED and (not self.since or now - self.since >= policy.recovery_ms)


def mark(outcome: Outcome, *, slow: bool) -> Mark | None:
    """What an outcome says about the account; None: nothing. slow: the answer took too long, whatever it was.

    Only ProviderDown and Transient are failures (semantics.md, section 5), and of a target's refusal what puts the
    account in doubt (P6); an answer that never came is a slow one. Throttled says nothing: the quota deals with it.
    """
    match outcome:
        case ProviderDown(whole_account=True):
            return Mark.REFUSED
        case ProviderDown() | Transient(of_target=False) | Permanent(of_account=True):
            return Mark.FAILED
        case Ambiguous(unrecognised=False):
            return Mark.SLOW
        case Accepted() | Permanent() | TargetGone() | Transient():
            return Mark.SLOW if slow else Mark.OK
        case _:
            return None


def runs(marks: Iterable[Mark | None]) -> tuple[Run, ...]:
    """In their order; those that say nothing are left out."""
    said = (each for each in marks if each is not None)
    return tuple(Run(each, sum(1 for _ in group)) for each, group in groupby(said))


def observe(
    policy: Policy, breaker: Breaker, now: int, *, since: int, seen: Sequence[Run], detail: str
) -> tuple[Breaker, Switch | None]:
    """The breaker after outcomes, and how it switched. detail: the last failure, in the provider's words.

    since: the phase in which their sends began; outcomes of an earlier one say nothing about this one, and what came
    after a switch belongs to the phase before it.
    """
    if since != breaker.since:
        return breaker, None
    found = breaker
    for run in seen:
        found = _after(policy, found, now, run, detail[:DETAIL_CHARS])
        if found.since != breaker.since:
            return found, Switch(breaker.phase, found.phase, found.reason)
    return found, None


def allow(
    policy: Policy, breaker: Breaker, now: int, *, wanted: int, urgent: bool
) -> tuple[Breaker, int, Switch | None]:
    """How many of `wanted` sends may begin now. Places that are not used are lost; others follow soon.

    urgent: nobody else can carry them and they cannot wait, so that an open one is tried once every probe_every_ms.
    """
    if breaker.phase is Phase.CLOSED:
        return breaker, wanted, None
    following = now + policy.probe_every_ms
    if breaker.phase is Phase.OPEN:
        if now >= breaker.until:
            reason = f"tried again after {policy.open_ms // 1000} s"
            found = _into(breaker, Phase.HALF_OPEN, now, reason, probe_at=following)
            return found, min(wanted, policy.probes), Switch(breaker.phase, found.phase, reason)
        if urgent and now >= breaker.probe_at:
            return replace(breaker, probe_at=following), min(wanted, 1), None
        return breaker, 0, None
    if now >= breaker.probe_at:
        return replace(breaker, probe_at=following), min(wanted, policy.probes), None
    return breaker, 0, None


def retry(breaker: Breaker, now: int) -> Breaker:
    """An open one may be tried from now on: somebody says that its cause is gone. Others stay as they are."""
    return replace(breaker, until=min(breaker.until, now)) if breaker.phase is Phase.OPEN else breaker


def _after(policy: Policy, breaker: Breaker, now: int, run: Run, detail: str) -> Breaker:
    match breaker.phase:
        case Phase.CLOSED:
            return _closed(policy, breaker, now, run, detail)
        case Phase.OPEN if run.mark is Mark.OK:
            return _won(policy, breaker, now, run.times)
        case Phase.OPEN:
            return breaker
        case Phase.HALF_OPEN if run.mark is Mark.OK:
            return _won(policy, breaker, now, run.times)
        case Phase.HALF_OPEN:
            return _opened(
                policy, breaker, now, _told("a probe was slow" if run.mark is Mark.SLOW else "a probe failed", detail)
            )


def _won(policy: Policy, breaker: Breaker, now: int, count: int) -> Breaker:
    wins = breaker.wins + count
    if wins >= policy.probes:
        return _into(breaker, Phase.CLOSED, now, f"{wins} probes in a row worked")
    if breaker.phase is Phase.OPEN:
        return _into(breaker, Phase.HALF_OPEN, now, "a probe worked", probe_at=now, wins=wins)
    return replace(breaker, wins=wins)


def _closed(policy: Policy, breaker: Breaker, now: int, run: Run, detail: str) -> Breaker:
    if run.mark is Mark.REFUSED:
        return _opened(policy, breaker, now, _told("the account is refused", detail))
    failures = (
        0 if run.mark is Mark.OK else breaker.failures + run.times if run.mark is Mark.FAILED else breaker.failures
    )
    window = _counted(policy, breaker.window, now, run)
    if failures >= policy.failures_in_row:
        return _opened(policy, breaker, now, _told(f"{failures} failures in a row", detail))
    calls = sum(slot.calls for slot in window)
    if calls >= policy.min_calls:
        for count, what in (
            (sum(slot.failed for slot in window), "failed"),
            (sum(slot.slow for slot in window), "were slow"),
        ):
            if count * 100 >= calls * policy.rate_percent:
                seconds = policy.window_ms // 1000
                return _opened(
                    policy, breaker, now, _told(f"{count} of {calls} calls {what} within {seconds} s", detail)
                )
    return replace(breaker, failures=failures, window=window)


def _counted(policy: Policy, window: Sequence[Slot], now: int, run: Run) -> tuple[Slot, ...]:
    number = now * SLOTS // policy.window_ms
    kept = [slot for slot in window if slot.number > number - SLOTS]
    # Of a clock that went back, too, so that numbers only rise.
    last = kept.pop() if kept and kept[-1].number >= number else Slot(number, 0, 0, 0)
    failed, slow = run.times * (run.mark is Mark.FAILED), run.times * (run.mark is Mark.SLOW)
    return (*kept, Slot(last.number, last.calls + run.times, last.failed + failed, last.slow + slow))


def _into(
    breaker: Breaker, phase: Phase, now: int, reason: str, *, until: int = 0, probe_at: int = 0, wins: int = 0
) -> Breaker:
    since = max(now, breaker.since + 1)
    return Breaker(phase, since, reason, until=until, probe_at=probe_at, wins=wins)


def _opened(policy: Policy, breaker: Breaker, now: int, reason: str) -> Breaker:
    until, probe_at = now + policy.open_ms, now + policy.probe_every_ms
    return _into(breaker, Phase.OPEN, now, reason, until=until, probe_at=probe_at)


def _told(what: str, detail: str) -> str:
    return f"{what}, the last: {detail}" if detail else what
