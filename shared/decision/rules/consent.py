"""Whose consent it is: an address's own on EMAIL and SMS, the user's on PUSH and INBOX (data.md, consents)."""

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts, Target
from shared.decision.verdict import GO, Go, Skip
from shared.wire.channel import Category, ChannelSpec


def consent(facts: Facts, channel: ChannelSpec, target: Target) -> Go | Skip:
    """One recipient's consent lets no other be written to."""
    if facts.type.category is Category.MARKETING and not facts.consents(channel, target):
        return Skip(Reason.NO_CONSENT)
    return GO
