"""Whom a team key reaches."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import Reason
from shared.decision.facts import Mode
from shared.decision.rules.allow_list import allow_list
from shared.decision.verdict import GO, Go, Skip
from shared.wire.channel import EMAIL
from tests.unit.shared.decision.sample import FACTS, MAIL


@pytest.mark.parametrize(
    ("mode", "listed", "verdict"),
    [
        pytest.param(Mode.TEAM, {MAIL.key}, GO, id="on-the-list"),
        pytest.param(Mode.TEAM, {b"other"}, Skip(Reason.NOT_ON_ALLOW_LIST), id="off-the-list"),
        pytest.param(Mode.TEAM, set(), Skip(Reason.NOT_ON_ALLOW_LIST), id="no-list-is-nobody"),
        pytest.param(Mode.LIVE, set(), GO, id="live-keys-have-none"),
        pytest.param(Mode.TEST, set(), GO, id="test-keys-reach-nobody"),
    ],
)
def test_lists(mode: Mode, listed: set[bytes], verdict: Go | Skip) -> None:
    assert allow_list(replace(FACTS, mode=mode, allow_list=frozenset(listed)), EMAIL, MAIL) == verdict


@given(mode=st.sampled_from(Mode), listed=st.frozensets(st.binary(max_size=2) | st.just(MAIL.key)))
def test_a_team_key_never_leaves_its_list(mode: Mode, listed: frozenset[bytes]) -> None:
    goes = allow_list(replace(FACTS, mode=mode, allow_list=listed), EMAIL, MAIL) == GO
    assert goes == (mode is not Mode.TEAM or MAIL.key in listed)
