"""Something to say on the channel."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.lifecycle import Reason
from shared.decision.rules.template import template
from shared.decision.verdict import GO, Skip, Verdict
from shared.wire.channel import DEFAULT_CHANNELS, EMAIL
from tests.unit.shared.decision.sample import FACTS, NOW


@pytest.mark.parametrize(
    ("written", "verdict"),
    [
        pytest.param({"EMAIL", "SMS"}, GO, id="written"),
        pytest.param({"SMS"}, Skip(Reason.NO_TEMPLATE), id="for-another-channel"),
        pytest.param(set(), Skip(Reason.NO_TEMPLATE), id="wordless"),
    ],
)
def test_templates(written: set[str], verdict: Verdict) -> None:
    assert template(replace(FACTS, templates=frozenset(written)), EMAIL, NOW) == verdict


@given(written=st.frozensets(st.sampled_from(DEFAULT_CHANNELS.names)))
def test_each_channel_needs_its_own(written: frozenset[str]) -> None:
    facts = replace(FACTS, templates=written)
    assert {spec.name for spec in DEFAULT_CHANNELS.specs if template(facts, spec, NOW) == GO} == written
