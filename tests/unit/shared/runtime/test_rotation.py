"""Two instances with different rings during a rotation: whatever the moment, nothing that was sealed stays shut."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from shared.core.sealing import KeyRing, LostKeyError, Purpose, UnknownKeyError, open_sealed, seal
from shared.runtime.keyring import FileRingSource, RingSource, write_ring

K1, K2, LOOKUP = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
BEFORE = KeyRing(active="k1", keys={"k1": K1}, lookup_key=LOOKUP)
ADDED = KeyRing(active="k1", keys={"k1": K1, "k2": K2}, lookup_key=LOOKUP)
PROMOTED = replace(ADDED, active="k2")
RETIRED = KeyRing(active="k2", keys={"k2": K2}, lookup_key=LOOKUP, lost=frozenset({"k1"}))


class Instance:
    """A process with its own copy of the ring's file, as another machine or a Secret's mount has."""

    def __init__(self, file: Path, ring: KeyRing) -> None:
        self.file = file
        write_ring(file, ring)
        self.source: RingSource = FileRingSource(file)

    def seal(self, text: bytes) -> bytes:
        return seal(self.source.ring, Purpose.PARAMS, b"row", text)

    def open(self, sealed: bytes) -> bytes:
        return open_sealed(self.source.ring, Purpose.PARAMS, b"row", sealed)

    def open_patiently(self, sealed: bytes) -> bytes:
        """As every consumer does: an unknown key is looked for once more before the message waits."""
        try:
            return self.open(sealed)
        except UnknownKeyError:
            assert self.source.refresh()
            return self.open(sealed)


@pytest.mark.parametrize(("here", "there"), list(product((BEFORE, ADDED), (BEFORE, ADDED))) + [(ADDED, PROMOTED)] * 2)
def test_in_the_order_of_a_rotation_both_open_what_either_seals(tmp_path: Path, here: KeyRing, there: KeyRing) -> None:
    one, other = Instance(tmp_path / "one.json", here), Instance(tmp_path / "other.json", there)
    assert other.open(one.seal(b"from one")) == b"from one"
    assert one.open(other.seal(b"from the other")) == b"from the other"


def test_an_instance_that_missed_the_first_step_waits_and_then_opens(tmp_path: Path) -> None:
    old, new = Instance(tmp_path / "old.json", BEFORE), Instance(tmp_path / "new.json", PROMOTED)
    sealed = new.seal(b"hello")
    assert new.open(old.seal(b"hello")) == b"hello"
    with pytest.raises(UnknownKeyError):
        old.open(sealed)
    assert old.source.refresh() is False  # the file is not there yet: the message is retried, and loses nothing
    write_ring(old.file, PROMOTED)
    assert old.open_patiently(sealed) == b"hello"
    assert old.seal(b"x")[2:4] == b"k2"


def test_a_retired_key_s_values_are_rejected_for_good_and_others_open(tmp_path: Path) -> None:
    late, settled = Instance(tmp_path / "late.json", PROMOTED), Instance(tmp_path / "settled.json", RETIRED)
    with pytest.raises(LostKeyError, match="'k1'"):
        settled.open(seal(BEFORE, Purpose.PARAMS, b"row", b"old"))
    assert settled.open(late.seal(b"new")) == b"new"
