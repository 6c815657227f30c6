"""How often a day (seed 003: at most three marketing pushes), by the user's own calendar (T5)."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts, Mode
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import ChannelSpec


def frequency(facts: Facts, channel: ChannelSpec, _now: datetime) -> Verdict:
    """As far as the facts know; whoever reserves a place atomically may refuse it after that
    (`shared/decision/override.py`). TEST keys count in no cap (semantics.md section 3).
    """
    cap = facts.caps.get(channel.name)
    if cap is not None and facts.sent_today.get(channel.name, 0) >= cap and facts.mode is not Mode.TEST:
        return Skip(Reason.CAPPED)
    return GO
