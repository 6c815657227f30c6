"""The law's part (seed 003, preferences and consent): marketing needs consent, the other categories do not."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import Category, ChannelSpec


def category(facts: Facts, channel: ChannelSpec, _now: datetime) -> Verdict:
    """SECURITY and TRANSACTIONAL are independent of marketing consent; MARKETING without it is never sent."""
    if facts.type.category is Category.MARKETING and channel.name not in facts.consented:
        return Skip(Reason.NO_CONSENT)
    return GO
