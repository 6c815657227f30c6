"""Whether there is an address at all, and the one way around a missing one (seed 003, fallback channel)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts
from shared.decision.verdict import GO, Redirect, Skip, Verdict
from shared.wire.channel import Category, ChannelSpec

FALLBACK: Final[Mapping[str, str]] = {"PUSH": "EMAIL"}
"""A transactional message without a device goes by e-mail."""


def reach(facts: Facts, channel: ChannelSpec, _now: datetime) -> Verdict:
    """Go with at least one target; else Redirect to the fallback channel, or Skip(no_target).

    Redirect only for want of a target, only for TRANSACTIONAL, only where the fallback has a target and is not
    decided on anyway. A refusal of another rule wins over it in the chain, and the fallback passes the chain itself.
    """
    if facts.targets.get(channel.name):
        return GO
    fallback = FALLBACK.get(channel.name)
    if (
        fallback is not None
        and facts.type.category is Category.TRANSACTIONAL
        and fallback not in facts.channels
        and facts.targets.get(fallback)
    ):
        return Redirect(fallback, Reason.NO_TARGET)
    return Skip(Reason.NO_TARGET)
