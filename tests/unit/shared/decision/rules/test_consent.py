"""Marketing and whose consent it takes: `category` for the channel, `consent` for each target."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.catalogue import NotificationType
from shared.core.lifecycle import Reason
from shared.decision.facts import Facts, Target
from shared.decision.rules.category import category
from shared.decision.rules.consent import consent
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import DEFAULT_CHANNELS, EMAIL, INBOX, PUSH, SMS, Category, ChannelSpec
from tests.unit.shared.decision.sample import (
    BOX,
    CONSENTS,
    FACTS,
    MAIL,
    NOW,
    NUMBER,
    OTP,
    PHONE,
    SALE,
    SHIPPED,
    TABLET,
    USER,
)

OTHERS = Target(b"another mail", b"s5")
WANTED = replace(FACTS, type=SALE, consented=CONSENTS)
TWO_MAILS = {"EMAIL": (MAIL, OTHERS)}
REFUSED = Skip(Reason.NO_CONSENT)


@pytest.mark.parametrize(
    ("facts", "channel", "verdict"),
    [
        pytest.param(WANTED, PUSH, GO, id="the-users-own-word-on-push"),
        pytest.param(WANTED, INBOX, GO, id="and-in-the-app"),
        pytest.param(WANTED, EMAIL, GO, id="the-addresss-on-e-mail"),
        pytest.param(WANTED, SMS, GO, id="the-numbers-on-sms"),
        pytest.param(replace(WANTED, consented=frozenset()), PUSH, REFUSED, id="nobody-said-anything"),
        pytest.param(replace(WANTED, consented=frozenset({("EMAIL", USER)})), EMAIL, REFUSED, id="not-the-users"),
        pytest.param(replace(WANTED, consented=frozenset({("PUSH", PHONE.key)})), PUSH, REFUSED, id="not-the-devices"),
        pytest.param(replace(WANTED, consented=frozenset({("SMS", MAIL.key)})), EMAIL, REFUSED, id="another-channels"),
        pytest.param(replace(WANTED, user_subject=None), PUSH, REFUSED, id="a-user-nobody-knows"),
        pytest.param(
            replace(WANTED, targets=TWO_MAILS), EMAIL, GO, id="one-of-two-addresses-is-enough-for-the-channel"
        ),
        pytest.param(replace(WANTED, targets={}), EMAIL, GO, id="without-an-address-nobody-refused"),
        pytest.param(
            replace(WANTED, targets={}, consented=frozenset()), PUSH, REFUSED, id="a-user-can-without-a-device"
        ),
        pytest.param(replace(FACTS, type=SHIPPED), EMAIL, GO, id="transactional-needs-none"),
        pytest.param(replace(FACTS, type=OTP), SMS, GO, id="security-needs-none"),
    ],
)
def test_channels(facts: Facts, channel: ChannelSpec, verdict: Verdict) -> None:
    assert category(facts, channel, NOW) == verdict


@pytest.mark.parametrize(
    ("facts", "channel", "target", "verdict"),
    [
        pytest.param(WANTED, EMAIL, MAIL, GO, id="the-one-who-consented"),
        pytest.param(WANTED, EMAIL, OTHERS, REFUSED, id="not-the-other-recipient"),
        pytest.param(WANTED, SMS, NUMBER, GO, id="the-number-it-was-given-for"),
        pytest.param(WANTED, PUSH, PHONE, GO, id="every-device"),
        pytest.param(WANTED, PUSH, TABLET, GO, id="of-the-user"),
        pytest.param(WANTED, INBOX, BOX, GO, id="the-users-inbox"),
        pytest.param(replace(FACTS, type=SHIPPED), EMAIL, OTHERS, GO, id="transactional-needs-none"),
    ],
)
def test_targets(facts: Facts, channel: ChannelSpec, target: Target, verdict: Verdict) -> None:
    assert consent(facts, channel, target) == verdict


KEYS = st.sampled_from([MAIL.key, OTHERS.key, PHONE.key, USER])


@given(
    channel=st.sampled_from(DEFAULT_CHANNELS.specs),
    kind=st.sampled_from([SHIPPED, OTP, SALE]),
    targets=st.lists(st.sampled_from([MAIL, OTHERS, PHONE]), unique=True),
    consented=st.frozensets(st.tuples(st.sampled_from(DEFAULT_CHANNELS.names), KEYS)),
)
def test_a_channel_with_targets_is_refused_where_each_of_them_is(
    channel: ChannelSpec, kind: NotificationType, targets: list[Target], consented: frozenset[tuple[str, bytes]]
) -> None:
    facts = replace(FACTS, type=kind, targets={channel.name: tuple(targets)}, consented=consented)
    answers = [consent(facts, channel, target) is GO for target in targets]
    if targets:
        assert (category(facts, channel, NOW) is GO) == any(answers)
    if kind.category is not Category.MARKETING:
        assert all(answers)
