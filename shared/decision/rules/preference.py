"""The user's part (seed 003): a channel that the user switched off stays silent, except for SECURITY."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import Category, ChannelSpec


def preference(facts: Facts, channel: ChannelSpec, _now: datetime) -> Verdict:
    """No word from the user is no objection; what marketing needs beyond that is consent (see `category`)."""
    if facts.type.category is not Category.SECURITY and not facts.preferences.get(channel.name, True):
        return Skip(Reason.PREFERENCE)
    return GO
