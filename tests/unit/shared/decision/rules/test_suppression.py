"""Addresses that must not be written to. Which of them a category minds is the facts' part (`Facts.suppressed`)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.catalogue import NotificationType
from shared.core.lifecycle import Reason
from shared.decision.facts import Mode
from shared.decision.rules.suppression import suppression
from shared.decision.verdict import GO, Go, Skip
from shared.wire.channel import EMAIL, SMS
from tests.unit.shared.decision.sample import FACTS, MAIL, OTP, SALE, SHIPPED

DEAD = Skip(Reason.SUPPRESSED)


@pytest.mark.parametrize(
    ("kind", "mode", "suppressed", "verdict"),
    [
        pytest.param(SHIPPED, Mode.LIVE, {("EMAIL", MAIL.key)}, DEAD, id="dead"),
        pytest.param(OTP, Mode.LIVE, {("EMAIL", MAIL.key)}, DEAD, id="dead-for-security-as-well"),
        pytest.param(SALE, Mode.TEAM, {("EMAIL", MAIL.key)}, DEAD, id="for-team-keys-as-well"),
        pytest.param(SHIPPED, Mode.TEST, {("EMAIL", MAIL.key)}, GO, id="test-keys-reach-nobody"),
        pytest.param(SHIPPED, Mode.LIVE, {("SMS", MAIL.key)}, GO, id="on-another-channel"),
        pytest.param(SHIPPED, Mode.LIVE, {("EMAIL", b"other")}, GO, id="another-address"),
    ],
)
def test_addresses(kind: NotificationType, mode: Mode, suppressed: set[tuple[str, bytes]], verdict: Go | Skip) -> None:
    facts = replace(FACTS, type=kind, mode=mode, suppressed=frozenset(suppressed))
    assert suppression(facts, EMAIL, MAIL) == verdict


@given(suppressed=st.frozensets(st.tuples(st.sampled_from(["EMAIL", "SMS"]), st.sampled_from([MAIL.key, b"other"]))))
def test_it_is_channel_and_address_together(suppressed: frozenset[tuple[str, bytes]]) -> None:
    facts = replace(FACTS, suppressed=suppressed)
    for channel in (EMAIL, SMS):
        assert (suppression(facts, channel, MAIL) == DEAD) == ((channel.name, MAIL.key) in suppressed)
