"""A counter's no after the rules' yes."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import Reason
from shared.decision.chain import Decision, decide
from shared.decision.facts import Facts
from shared.decision.override import overridden
from shared.decision.verdict import GO, Defer, Redirect, Skip, Verdict
from tests.unit.shared.decision.sample import CONSENTS, FACTS, HOUR, MAIL, NOW, SALE

WANTED = replace(FACTS, type=SALE, consented=CONSENTS, asked=("PUSH", "INBOX"), caps={"PUSH": 3})
TO_MAIL = replace(FACTS, asked=("PUSH",), targets={"EMAIL": (MAIL,)})
CAPPED, DUPLICATE = Skip(Reason.CAPPED), Skip(Reason.DUPLICATE_CONTENT)


def verdicts(decision: Decision) -> dict[str, Verdict]:
    return {channel.channel: channel.verdict for channel in decision.channels}


@pytest.mark.parametrize(
    ("facts", "refused", "expected"),
    [
        pytest.param(WANTED, {}, {"PUSH": GO, "INBOX": GO}, id="nothing-refused"),
        pytest.param(WANTED, {"PUSH": Reason.CAPPED}, {"PUSH": CAPPED, "INBOX": GO}, id="one-channel-capped"),
        pytest.param(
            WANTED,
            {"PUSH": Reason.DUPLICATE_CONTENT, "INBOX": Reason.DUPLICATE_CONTENT},
            {"PUSH": DUPLICATE, "INBOX": DUPLICATE},
            id="said-already",
        ),
        pytest.param(WANTED, {"SMS": Reason.CAPPED}, {"PUSH": GO, "INBOX": GO}, id="a-channel-that-is-not-decided"),
        pytest.param(
            TO_MAIL,
            {"EMAIL": Reason.CAPPED},
            {"PUSH": Skip(Reason.NO_TARGET), "EMAIL": CAPPED},
            id="who-was-redirected-there-has-nowhere-to-go",
        ),
        pytest.param(
            replace(TO_MAIL, send_at=NOW + HOUR / 2),
            {"EMAIL": Reason.CAPPED},
            {"PUSH": Redirect("EMAIL", Reason.NO_TARGET), "EMAIL": Defer(NOW + HOUR / 2, Reason.SCHEDULED)},
            id="what-waits-is-decided-again",
        ),
    ],
)
def test_refusals(facts: Facts, refused: dict[str, Reason], expected: dict[str, Verdict]) -> None:
    assert verdicts(overridden(decide(facts, NOW), refused)) == expected


def test_the_trail_says_so_and_nobody_is_left() -> None:
    push = overridden(decide(WANTED, NOW), {"PUSH": Reason.CAPPED}).channels[0]
    assert (push.targets, push.refusals, push.send_until) == ((), (), None)
    assert push.trail[-1].rule == "frequency"
    assert push.trail[-1].verdict == CAPPED


@given(refused=st.dictionaries(st.sampled_from(["PUSH", "INBOX"]), st.sampled_from([Reason.CAPPED])))
def test_it_is_what_the_chain_had_said_had_it_known(refused: dict[str, Reason]) -> None:
    full = replace(WANTED, caps=dict.fromkeys(refused, 3), sent_today=dict.fromkeys(refused, 3))
    assert overridden(decide(WANTED, NOW), refused) == decide(full, NOW)


def test_so_it_is_for_a_duplicate() -> None:
    refused = dict.fromkeys(("PUSH", "INBOX"), Reason.DUPLICATE_CONTENT)
    known = verdicts(decide(replace(WANTED, duplicate_of=UUID(int=2)), NOW))
    assert verdicts(overridden(decide(WANTED, NOW), refused)) == known
