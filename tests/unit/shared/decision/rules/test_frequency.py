"""How often a day. What a day is, tests/unit/shared/core/test_local_day.py tells (T5)."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import Reason
from shared.decision.facts import Mode
from shared.decision.rules.frequency import frequency
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import DEFAULT_CHANNELS, PUSH, ChannelSpec
from tests.unit.shared.decision.sample import FACTS, NOW, SALE

CAPPED = Skip(Reason.CAPPED)


@pytest.mark.parametrize(
    ("caps", "sent", "mode", "verdict"),
    [
        pytest.param({}, {"PUSH": 99}, Mode.LIVE, GO, id="no-cap"),
        pytest.param({"PUSH": 3}, {}, Mode.LIVE, GO, id="the-first"),
        pytest.param({"PUSH": 3}, {"PUSH": 2}, Mode.LIVE, GO, id="the-third"),
        pytest.param({"PUSH": 3}, {"PUSH": 3}, Mode.LIVE, CAPPED, id="the-fourth"),
        pytest.param({"PUSH": 3}, {"PUSH": 4}, Mode.LIVE, CAPPED, id="after-the-cap-was-lowered"),
        pytest.param({"PUSH": 3}, {"EMAIL": 3}, Mode.LIVE, GO, id="another-channels-do-not-count"),
        pytest.param({"EMAIL": 0}, {}, Mode.LIVE, GO, id="another-channels-cap"),
        pytest.param({"PUSH": 0}, {}, Mode.LIVE, CAPPED, id="none-at-all"),
        pytest.param({"PUSH": 3}, {"PUSH": 3}, Mode.TEAM, CAPPED, id="team-keys-reach-people"),
        pytest.param({"PUSH": 3}, {"PUSH": 3}, Mode.TEST, GO, id="test-keys-reach-nobody"),
    ],
)
def test_caps(caps: Mapping[str, int], sent: Mapping[str, int], mode: Mode, verdict: Verdict) -> None:
    assert frequency(replace(FACTS, type=SALE, mode=mode, caps=caps, sent_today=sent), PUSH, NOW) == verdict


@given(channel=st.sampled_from(DEFAULT_CHANNELS.specs), cap=st.integers(0, 50), sends=st.integers(0, 100))
def test_whoever_sends_one_by_one_sends_as_many_as_the_cap(channel: ChannelSpec, cap: int, sends: int) -> None:
    sent = 0
    for _ in range(sends):
        facts = replace(FACTS, type=SALE, caps={channel.name: cap}, sent_today={channel.name: sent})
        sent += frequency(facts, channel, NOW) is GO
    assert sent == min(cap, sends)
