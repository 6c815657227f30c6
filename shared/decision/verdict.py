"""What a rule may answer: one closed set."""

from dataclasses import dataclass
from datetime import datetime

from shared.core.lifecycle import Reason


@dataclass(frozen=True, slots=True)
class Go:
    """Nothing against it."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Not on this channel, or not to this target. Final."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Defer:
    """Not before `until` (aware); everything is decided again then."""

    until: datetime
    reason: Reason


@dataclass(frozen=True, slots=True)
class Redirect:
    """On `channel` instead, for want of a target here; never around a refusal."""

    channel: str
    reason: Reason


Verdict = Go | Skip | Defer | Redirect

GO = Go()
