"""The same content from two events is told once within the type's window (semantics.md section 1)."""

from datetime import datetime

from shared.core.lifecycle import Reason
from shared.decision.facts import Facts, Mode
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import ChannelSpec


def content_window(facts: Facts, _channel: ChannelSpec, _now: datetime) -> Verdict:
    """As far as the facts know; what two processes decide at once is settled by the row that says it
    (`shared/decision/override.py`). TEST keys count in no window (semantics.md section 3).
    """
    if facts.duplicate_of is not None and facts.mode is not Mode.TEST:
        return Skip(Reason.DUPLICATE_CONTENT)
    return GO
