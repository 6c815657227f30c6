"""What comes too late is not sent (semantics.md section 1, TTL)."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import ChannelSpec


def ttl(facts: Facts, _channel: ChannelSpec, now: datetime) -> Verdict:
    """At `expires_at` itself a message is expired: every later hop compares the same way."""
    return Skip(Reason.EXPIRED) if facts.expires_at <= now else GO
