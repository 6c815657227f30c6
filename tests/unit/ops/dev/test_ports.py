"""Ports stay the same from one start to the next, and two stacks rarely want the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.dev.errors import StackError
from ops.dev.ports import FIRST_PORT, LAST_PORT, candidate, choose_ports, load_ports

NAMES = ["postgres", "valkey", "kafka", "kafka-controller"]


def test_a_kept_port_that_is_still_free_is_used_again() -> None:
    assert choose_ports(["postgres"], {"postgres": 31_000}, "seed", lambda _: True) == {"postgres": 31_000}


def test_a_kept_port_that_was_taken_is_replaced() -> None:
    chosen = choose_ports(["postgres"], {"postgres": 31_000}, "seed", lambda port: port != 31_000)
    assert chosen == {"postgres": candidate("seed", "postgres", 0)}


def test_no_free_port_is_a_sentence_with_the_name() -> None:
    with pytest.raises(StackError, match="No free port for valkey"):
        choose_ports(["valkey"], {}, "seed", lambda _: False)


@given(seed=st.text(), kept=st.dictionaries(st.sampled_from(NAMES), st.integers(FIRST_PORT, FIRST_PORT + 2)))
def test_every_name_gets_its_own_port_in_the_range(seed: str, kept: dict[str, int]) -> None:
    chosen = choose_ports(NAMES, kept, seed, lambda port: port % 3 != 0)
    assert list(chosen) == NAMES
    assert len(set(chosen.values())) == len(NAMES)
    assert all(FIRST_PORT <= port <= LAST_PORT and port % 3 for port in chosen.values())


@given(seed=st.text(), attempt=st.integers(0, 1000))
def test_candidates_lie_below_the_ephemeral_ports(seed: str, attempt: int) -> None:
    assert FIRST_PORT <= candidate(seed, "kafka", attempt) <= LAST_PORT


@pytest.mark.parametrize("text", ["", "[]", "{", '{"postgres": "x"}', '{"postgres": 70000}', "null"])
def test_a_damaged_port_file_is_only_a_lost_preference(text: str, tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text(text)
    assert load_ports(tmp_path / "ports.json") == {}
    assert load_ports(tmp_path / "missing.json") == {}
