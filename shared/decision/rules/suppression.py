"""Addresses that must not be written to: hard bounces, complaints, unsubscribed numbers."""

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts, Mode, Target
from shared.decision.verdict import GO, Go, Skip
from shared.wire.channel import ChannelSpec


def suppression(facts: Facts, channel: ChannelSpec, target: Target) -> Go | Skip:
    """Every category alike: the address is dead or was refused. TEST reaches nobody, so nothing keeps it."""
    if facts.mode is not Mode.TEST and (channel.name, target.key) in facts.suppressed:
        return Skip(Reason.SUPPRESSED)
    return GO
