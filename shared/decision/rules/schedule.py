"""A caller's `sendAt`: wait for it, then decide with fresh facts."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts
from shared.decision.verdict import GO, Defer, Verdict
from shared.wire.channel import ChannelSpec


def schedule(facts: Facts, _channel: ChannelSpec, now: datetime) -> Verdict:
    if facts.send_at is not None and facts.send_at > now:
        return Defer(facts.send_at, Reason.SCHEDULED)
    return GO
