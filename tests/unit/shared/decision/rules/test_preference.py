"""The user's word on a channel."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.catalogue import NotificationType
from shared.core.lifecycle import Reason
from shared.decision.rules.preference import preference
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import DEFAULT_CHANNELS, EMAIL, Category, ChannelSpec
from tests.unit.shared.decision.sample import FACTS, NOW, OTP, SALE, SHIPPED

OFF = Skip(Reason.PREFERENCE)


@pytest.mark.parametrize(
    ("kind", "said", "verdict"),
    [
        pytest.param(SHIPPED, {}, GO, id="no-word-is-no-objection"),
        pytest.param(SHIPPED, {"EMAIL": True}, GO, id="on"),
        pytest.param(SHIPPED, {"EMAIL": False}, OFF, id="off"),
        pytest.param(SHIPPED, {"PUSH": False}, GO, id="off-elsewhere"),
        pytest.param(SALE, {"EMAIL": False}, OFF, id="marketing-off"),
        pytest.param(OTP, {"EMAIL": False}, GO, id="security-does-not-ask"),
    ],
)
def test_words(kind: NotificationType, said: Mapping[str, bool], verdict: Verdict) -> None:
    assert preference(replace(FACTS, type=kind, preferences=said), EMAIL, NOW) == verdict


@given(
    channel=st.sampled_from(DEFAULT_CHANNELS.specs),
    kind=st.sampled_from([SHIPPED, OTP, SALE]),
    said=st.dictionaries(st.sampled_from(DEFAULT_CHANNELS.names), st.booleans()),
)
def test_only_a_no_on_the_channel_itself_refuses(
    channel: ChannelSpec, kind: NotificationType, said: Mapping[str, bool]
) -> None:
    refused = preference(replace(FACTS, type=kind, preferences=said), channel, NOW) != GO
    assert refused == (said.get(channel.name) is False and kind.category is not Category.SECURITY)
