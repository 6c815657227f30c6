"""Nothing to say: the type has no template for this channel in the recipient's or the default locale."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import ChannelSpec


def template(facts: Facts, channel: ChannelSpec, _now: datetime) -> Verdict:
    return GO if channel.name in facts.templates else Skip(Reason.NO_TEMPLATE)
