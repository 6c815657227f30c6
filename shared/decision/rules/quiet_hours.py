"""The user's night (seed 003): what falls into a type's quiet hours waits for the morning, never dropped."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.core.zone import zone_named
from shared.decision.facts import Facts
from shared.decision.verdict import GO, Defer, Verdict
from shared.wire.channel import ChannelSpec


def quiet_hours(facts: Facts, _channel: ChannelSpec, now: datetime) -> Verdict:
    """Defer to the end of the quiet hours in the user's zone, plus the notification's share of the type's spread."""
    hours = facts.type.quiet_hours
    if hours is None:
        return GO
    zone = zone_named(facts.zone, facts.default_zone)
    if not hours.contains(now, zone):
        return GO
    return Defer(hours.release(now, zone, expires_at=facts.expires_at, of=facts.notification_id), Reason.QUIET_HOURS)


def send_until(facts: Facts, now: datetime) -> datetime | None:
    """The next start of the type's quiet hours, in UTC: what is not sent by then waits again. None: it has none."""
    hours = facts.type.quiet_hours
    return None if hours is None else hours.start_after(now, zone_named(facts.zone, facts.default_zone))
