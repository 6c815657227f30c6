"""The steps of a key's life."""

import pytest

from ops.cli.ring import KeyState, RingStepError, awaiting, next_id, promoted, retired, states, with_key
from shared.core.sealing import KeyRing, LostKeyError, Purpose, open_sealed, seal

KEY = bytes(range(32))


def ring(active: str, *others: str, lost: tuple[str, ...] = ()) -> KeyRing:
    return KeyRing(
        active=active, keys=dict.fromkeys((active, *others), KEY), lookup_key=KEY[::-1], lost=frozenset(lost)
    )


@pytest.mark.parametrize(
    ("given", "following"),
    [
        (ring("k1"), "k2"),
        (ring("k9", "k10"), "k11"),
        (ring("k1", lost=("k7",)), "k8"),
        (ring("mine"), "k1"),
        (ring("k1", "k08"), "k2"),
    ],
)
def test_an_id_is_never_given_twice(given: KeyRing, following: str) -> None:
    assert next_id(given) == following


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ring("k1"), None),
        (ring("k2", "k1"), None),
        (ring("k1", "k2"), "k2"),
        (ring("k1", "k10", "k2", "k9"), "k10"),  # the newest by number, however the file is sorted
        (ring("k9", "k1", "k10", "k2"), "k10"),
        (ring("k2", "k1", "mine"), None),
        (ring("k1", lost=("k2",)), None),
    ],
)
def test_a_key_that_awaits_its_promotion_is_newer_than_the_active_one(given: KeyRing, expected: str | None) -> None:
    assert awaiting(given) == expected


def test_the_age_of_a_key_with_a_name_of_its_own_is_not_guessed() -> None:
    with pytest.raises(RingStepError, match="ulak keys promote"):
        awaiting(ring("2026-key", "k1"))


def test_a_life() -> None:
    """Added, promoted, succeeded, retired: at each step it opens what it should, and the look-up key never changes."""
    first = ring("k1")
    old = seal(first, Purpose.CONTENT, b"row", b"old")
    added, key_id = with_key(first, KEY[::-1])
    assert (key_id, added.active) == ("k2", "k1")
    assert states(added) == {"k1": KeyState.ACTIVE, "k2": KeyState.DECRYPT_ONLY}
    second = promoted(added, "k2")
    new = seal(second, Purpose.CONTENT, b"row", b"new")
    assert open_sealed(added, Purpose.CONTENT, b"row", new) == b"new"
    assert open_sealed(second, Purpose.CONTENT, b"row", old) == b"old"
    third = retired(second, "k1", unknown_too=False)
    assert states(third) == {"k2": KeyState.ACTIVE, "k1": KeyState.LOST}
    assert open_sealed(third, Purpose.CONTENT, b"row", new) == b"new"
    with pytest.raises(LostKeyError):
        open_sealed(third, Purpose.CONTENT, b"row", old)
    assert {r.lookup_key for r in (first, added, second, third)} == {KEY[::-1]}
    assert retired(third, "k1", unknown_too=False) == third


def test_what_a_step_does_not_allow() -> None:
    with pytest.raises(RingStepError, match="it has k1, k2"):
        promoted(ring("k1", "k2"), "k3")
    with pytest.raises(RingStepError, match="ulak keys rotate"):
        retired(ring("k1"), "k1", unknown_too=True)
    with pytest.raises(RingStepError, match="--force records it as lost"):
        retired(ring("k1"), "k9", unknown_too=False)
    assert retired(ring("k1"), "k9", unknown_too=True).lost == {"k9"}
