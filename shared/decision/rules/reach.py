"""Whether there is an address at all, and the ways around a missing one (seed 003, fallback channel)."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts
from shared.decision.verdict import GO, Redirect, Skip, Verdict
from shared.wire.channel import ChannelSpec


def reach(facts: Facts, channel: ChannelSpec, _now: datetime) -> Verdict:
    """Go with at least one target; else Redirect to the type's first way around, or Skip(no_target).

    A refusal of another rule wins over the Redirect in the chain, and what it leads to passes the chain itself.
    """
    if facts.targets.get(channel.name):
        return GO
    ways = ways_around(facts)
    return Redirect(ways[0], Reason.NO_TARGET) if ways else Skip(Reason.NO_TARGET)


def ways_around(facts: Facts) -> tuple[str, ...]:
    """The type's fallback channels, in its order, that have a target and are not decided on anyway."""
    asked = facts.channels
    return tuple(name for name in facts.type.fallback_channels if facts.targets.get(name) and name not in asked)
