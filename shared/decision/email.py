"""What may become of an e-mail request: its category's rules, once for the message and once for each recipient. Pure.

The same rules as for notifications (`chain.py`), without those that choose channels and times: the caller chose.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.core.catalogue import Catalogue, NotificationType
from shared.core.email import EmailRequest
from shared.core.lifecycle import Reason
from shared.decision.chain import TARGET_RULES, Rule, RuleVerdict
from shared.decision.facts import Facts, Mode, Target
from shared.decision.rules.category import category
from shared.decision.rules.preference import preference
from shared.decision.rules.template import template
from shared.decision.rules.ttl import ttl
from shared.decision.verdict import GO, Go, Skip
from shared.wire.channel import DEFAULT_CHANNELS, Category, ChannelSpec

CHANNEL: Final = "EMAIL"
RULES: Final[tuple[Rule, ...]] = (category, preference, ttl, template)

Preferences = Mapping[tuple[Category, str, str], bool]
"""(category, channel, type or '' for all of the category) -> enabled, of one user."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was loaded about one request.

    target_keys: of the recipients, in the request's order. expires_at None: created_at and the type's time to live.
    locale and preferences are the user's, where the request names one who is known. suppressed: those of the target
    keys that must not be written to; unsolicited: those that must not in marketing; consented: those whose consent to
    marketing stands.
    """

    id: UUID
    created_at: datetime
    target_keys: Sequence[bytes]
    expires_at: datetime | None = None
    mode: Mode = Mode.LIVE
    locale: str | None = None
    preferences: Preferences = field(default_factory=dict)
    suppressed: frozenset[bytes] = frozenset()
    unsolicited: frozenset[bytes] = frozenset()
    consented: frozenset[bytes] = frozenset()
    allow_list: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class EmailDecision:
    """verdict is the message's: Skip where nobody gets it. recipients: one each, in the request's order.

    type None (UNKNOWN_TYPE): there is no time to live either, expires_at is what the request brought. trail holds the
    rules' answers in order, none for an unknown type.
    """

    verdict: Go | Skip
    recipients: tuple[Go | Skip, ...]
    type: NotificationType | None
    expires_at: datetime | None
    trail: tuple[RuleVerdict, ...] = ()


def decide_email(
    request: EmailRequest, known: Known, catalogue: Catalogue, now: datetime, *, default_locale: str
) -> EmailDecision:
    """Decide a request: UNKNOWN_TYPE, PREFERENCE, EXPIRED and NO_TEMPLATE refuse all of it, SUPPRESSED and
    NOT_ON_ALLOW_LIST one recipient, and NO_CONSENT whoever has not consented: all of it, where nobody has.
    """
    found = catalogue.type(request.type_name)
    if found is None:
        refused = Skip(Reason.UNKNOWN_TYPE)
        return EmailDecision(refused, (refused,) * len(known.target_keys), None, known.expires_at)
    expires_at = known.created_at + found.ttl if known.expires_at is None else known.expires_at
    written = catalogue.template(request.template, CHANNEL, request.locale or known.locale, default_locale)
    facts = Facts(
        notification_id=known.id,
        type=found,
        mode=known.mode,
        expires_at=expires_at,
        asked=(CHANNEL,),
        targets={CHANNEL: tuple(Target(key, b"") for key in known.target_keys)},
        templates=frozenset() if written is None else frozenset({CHANNEL}),
        preferences=_spoken(known.preferences, found),
        suppressed=frozenset((CHANNEL, key) for key in _suppressed(known, found)),
        consented=frozenset((CHANNEL, key) for key in known.consented),
        allow_list=known.allow_list,
    )
    channel = DEFAULT_CHANNELS.spec(CHANNEL)
    trail = tuple(RuleVerdict(rule.__name__, rule(facts, channel, now)) for rule in RULES)
    for step in trail:
        if isinstance(step.verdict, Skip):
            return EmailDecision(step.verdict, (step.verdict,) * len(known.target_keys), found, expires_at, trail)
    recipients = tuple(_for_target(facts, channel, target) for target in facts.targets[CHANNEL])
    verdict = GO if GO in recipients else recipients[0]
    return EmailDecision(verdict, recipients, found, expires_at, trail)


def _suppressed(known: Known, found: NotificationType) -> frozenset[bytes]:
    return known.suppressed | known.unsolicited if found.category is Category.MARKETING else known.suppressed


def _for_target(facts: Facts, channel: ChannelSpec, target: Target) -> Go | Skip:
    verdicts = (rule(facts, channel, target) for rule in TARGET_RULES)
    return next((verdict for verdict in verdicts if isinstance(verdict, Skip)), GO)


def _spoken(preferences: Preferences, found: NotificationType) -> dict[str, bool]:
    """The user's word on e-mail of this type: the type's own before the category's."""
    for of_type in (found.name, ""):
        word = preferences.get((found.category, CHANNEL, of_type))
        if word is not None:
            return {CHANNEL: word}
    return {}
