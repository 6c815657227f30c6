"""A team key reaches its allow-list only, so that no staging system ever writes to customers (api.md)."""

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts, Mode, Target
from shared.decision.verdict import GO, Go, Skip
from shared.wire.channel import ChannelSpec


def allow_list(facts: Facts, _channel: ChannelSpec, target: Target) -> Go | Skip:
    if facts.mode is Mode.TEAM and target.key not in facts.allow_list:
        return Skip(Reason.NOT_ON_ALLOW_LIST)
    return GO
