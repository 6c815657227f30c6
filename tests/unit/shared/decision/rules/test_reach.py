"""An address, or a way around the want of one: per type, in its order."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import Reason
from shared.decision.facts import Target
from shared.decision.rules.reach import reach, ways_around
from shared.decision.verdict import GO, Redirect, Skip, Verdict
from shared.wire.channel import EMAIL, PUSH, ChannelSpec
from tests.unit.shared.decision.sample import FACTS, MAIL, NOW, NUMBER, OTP, PHONE, SALE, SHIPPED

Targets = Mapping[str, tuple[Target, ...]]
NOWHERE = Skip(Reason.NO_TARGET)


@pytest.mark.parametrize(
    ("ways", "asked", "targets", "channel", "verdict"),
    [
        pytest.param(("EMAIL",), ("PUSH",), {"PUSH": (PHONE,), "EMAIL": (MAIL,)}, PUSH, GO, id="a-device"),
        pytest.param(("EMAIL",), ("PUSH",), {"PUSH": (), "EMAIL": (MAIL,)}, PUSH, "EMAIL", id="no-device"),
        pytest.param((), ("PUSH",), {"EMAIL": (MAIL,)}, PUSH, NOWHERE, id="a-type-that-stays-where-it-is"),
        pytest.param(("EMAIL", "SMS"), ("PUSH",), {"SMS": (NUMBER,)}, PUSH, "SMS", id="no-mail-either"),
        pytest.param(("SMS",), ("EMAIL",), {"SMS": (NUMBER,)}, EMAIL, "SMS", id="no-mail-goes-by-sms"),
        pytest.param(("SMS", "EMAIL"), ("PUSH",), {"SMS": (NUMBER,), "EMAIL": (MAIL,)}, PUSH, "SMS", id="in-its-order"),
        pytest.param(("EMAIL",), ("PUSH", "EMAIL"), {"EMAIL": (MAIL,)}, PUSH, NOWHERE, id="it-is-asked-for-anyway"),
        pytest.param(("EMAIL",), ("PUSH",), {}, PUSH, NOWHERE, id="nowhere"),
    ],
)
def test_ways(
    ways: tuple[str, ...], asked: tuple[str, ...], targets: Targets, channel: ChannelSpec, verdict: Verdict | str
) -> None:
    expected = Redirect(verdict, Reason.NO_TARGET) if isinstance(verdict, str) else verdict
    facts = replace(FACTS, type=replace(SHIPPED, fallback_channels=ways), asked=asked, targets=targets)
    assert reach(facts, channel, NOW) == expected


def test_by_default_transactional_goes_by_mail_and_nothing_else_wanders() -> None:
    assert [kind.fallback_channels for kind in (SHIPPED, OTP, SALE)] == [("EMAIL",), (), ()]


NAMES = st.sampled_from(["PUSH", "EMAIL", "SMS", "INBOX"])


@given(
    ways=st.lists(NAMES, unique=True).map(tuple),
    asked=st.lists(NAMES, min_size=1).map(tuple),
    targets=st.dictionaries(NAMES, st.sampled_from([(), (MAIL,), (MAIL, NUMBER)])),
)
def test_a_way_around_is_the_types_reachable_and_not_asked_for(
    ways: tuple[str, ...], asked: tuple[str, ...], targets: Targets
) -> None:
    facts = replace(FACTS, type=replace(SHIPPED, fallback_channels=ways), asked=asked, targets=targets)
    found = ways_around(facts)
    assert set(found) == {name for name in set(ways) - set(asked) if targets.get(name)}
    assert list(found) == sorted(found, key=ways.index)
