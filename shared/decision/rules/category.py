"""The law's part (seed 003, preferences and consent): marketing needs consent, the other categories do not."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import ADDRESSED, Category, ChannelSpec


def category(facts: Facts, channel: ChannelSpec, _now: datetime) -> Verdict:
    """MARKETING goes where somebody on the channel consents; which of the targets, `consent` says.

    A channel whose consents belong to addresses is refused for want of a consent only if there is an address: nobody
    said no, so a fallback may stand in.
    """
    if facts.type.category is not Category.MARKETING:
        return GO
    if channel.address_kind in ADDRESSED:
        targets = facts.targets.get(channel.name, ())
        allowed = not targets or any(facts.consents(channel, target) for target in targets)
    else:
        allowed = (channel.name, facts.user_subject) in facts.consented
    return GO if allowed else Skip(Reason.NO_CONSENT)
