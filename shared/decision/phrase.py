"""What it takes to tell in a language what was decided and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.core.control import PauseKind
from shared.core.lifecycle import DeliveryStatus, Reason


@dataclass(frozen=True, slots=True)
class Phrases:
    """One language's. {names} are filled by `str.format`, and the same in every language.

    Sentences end with a full stop, clauses do not. {why} is `because` with a reason's clause, or empty; {by} is
    `by_provider`, or empty, and in outcomes and receipts the provider's name or `provider`; {at} and {until} are
    moments; {what} is `to_target`, or a channel's name, or `it`.
    """

    reasons: Mapping[Reason, str]
    """Each as a clause that `because` takes."""
    remedies: Mapping[Reason, str]
    """Of `OWN_FAULTS`: what to do, as a sentence."""
    met: str
    because: str
    it: str
    to_target: str
    provider: str
    by_provider: str

    # The chain, as it was or would be decided.
    verdicts: Mapping[str, str]
    """Stored word of a verdict -> what is said of a channel."""
    verdict: str
    goes: str
    skips: str
    waits: str
    redirected: str
    instead_of: str
    rules: Mapping[str, str]
    """A rule's name -> what it looks at."""
    rule_goes: str
    rule_refuses: str
    rule_waits: str
    rule_redirects: str

    # A notification's story.
    accepted: str
    for_user: str
    with_key: str
    held: str
    cancelled: str
    attempt: str
    outcomes: Mapping[str, str]
    """Stored word of an attempt's outcome, lower case without underscores -> a clause."""
    receipts: Mapping[str, str]
    attempted: str
    routed: str
    """{detail}: to whom it goes instead of whom, and why, in the workers' own words."""
    unroutable: str
    duplicate: str
    asked: str
    anything: str
    pending: str
    paused: str
    """{paused} is one of `pauses`; {since} a moment, {by} who, {note} why in that person's own words."""
    pauses: Mapping[PauseKind, str]
    sending: str
    no_more: str
    not_sent: str
    outcome: str
    statuses: Mapping[DeliveryStatus, str]

    # Where it stands.
    stands_deferred: str
    stands_cancelled: str
    stands_decided: str
    stands_accepted: str
    one_delivery: str
    many_deliveries: str

    # An e-mail of a service's table.
    email_accepted: str
    email_lives: str
    one_attempt: str
    many_attempts: str
    last_met: str
    no_reason_kept: str
    email_sent: str
    email_failed: str
    email_sending: str
    email_waits: str
