"""What a decision becomes when the one who counts says no: places of a cap and contents of a window are given out
atomically, after the rules have judged by what was known before. Pure.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from shared.core.lifecycle import Reason
from shared.decision.chain import ChannelDecision, Decision, RuleVerdict
from shared.decision.rules.content_window import content_window
from shared.decision.rules.frequency import frequency
from shared.decision.verdict import Go, Redirect, Skip

_RULE: Final[Mapping[Reason, str]] = {
    Reason.CAPPED: frequency.__name__,
    Reason.DUPLICATE_CONTENT: content_window.__name__,
}


def overridden(decision: Decision, refused: Mapping[str, Reason]) -> Decision:
    """The decision with each of these channels skipped, for CAPPED or DUPLICATE_CONTENT, as if its rule had known.

    refused: by channel; one that does not go stays as it is. A channel that was redirected to a refused one is skipped
    for its own reason, as the chain would have told.
    """
    channels = tuple(
        _skipped(channel, refused[channel.channel])
        if channel.channel in refused and isinstance(channel.verdict, Go)
        else channel
        for channel in decision.channels
    )
    gone = {channel.channel for channel in channels if isinstance(channel.verdict, Skip)}
    return Decision(tuple(_unredirected(channel, gone) for channel in channels))


def _skipped(channel: ChannelDecision, reason: Reason) -> ChannelDecision:
    rule, verdict = _RULE[reason], Skip(reason)
    trail = tuple(RuleVerdict(rule, verdict) if step.rule == rule else step for step in channel.trail)
    return replace(channel, verdict=verdict, trail=trail, targets=(), refusals=(), send_until=None)


def _unredirected(channel: ChannelDecision, gone: set[str]) -> ChannelDecision:
    if isinstance(channel.verdict, Redirect) and channel.verdict.channel in gone:
        return replace(channel, verdict=Skip(channel.verdict.reason))
    return channel
