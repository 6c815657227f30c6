"""The same content once."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.catalogue import NotificationType
from shared.core.lifecycle import Reason
from shared.decision.facts import Mode
from shared.decision.rules.content_window import content_window
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import DEFAULT_CHANNELS, EMAIL, ChannelSpec
from tests.unit.shared.decision.sample import FACTS, NOW, OTP, SALE, SHIPPED


@pytest.mark.parametrize(
    ("first", "mode", "verdict"),
    [
        pytest.param(None, Mode.LIVE, GO, id="the-first"),
        pytest.param(UUID(int=2), Mode.LIVE, Skip(Reason.DUPLICATE_CONTENT), id="the-second"),
        pytest.param(UUID(int=2), Mode.TEAM, Skip(Reason.DUPLICATE_CONTENT), id="team-keys-reach-people"),
        pytest.param(UUID(int=2), Mode.TEST, GO, id="test-keys-reach-nobody"),
    ],
)
def test_duplicates(first: UUID | None, mode: Mode, verdict: Verdict) -> None:
    assert content_window(replace(FACTS, mode=mode, duplicate_of=first), EMAIL, NOW) == verdict


@given(
    channel=st.sampled_from(DEFAULT_CHANNELS.specs),
    kind=st.sampled_from([SHIPPED, OTP, SALE]),
    mode=st.sampled_from([Mode.LIVE, Mode.TEAM]),
    first=st.none() | st.uuids(),
)
def test_it_is_the_same_on_every_channel_and_in_every_category(
    channel: ChannelSpec, kind: NotificationType, mode: Mode, first: UUID | None
) -> None:
    facts = replace(FACTS, type=kind, mode=mode, duplicate_of=first)
    assert (content_window(facts, channel, NOW) is GO) == (first is None)
