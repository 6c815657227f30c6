"""Sealed rows: what opens, what waits, what never will."""

from pathlib import Path
from uuid import UUID

import pytest

from services.relay.opener import LeftAlone, Opener, Postponed, Refusal, wait_sec
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing, Purpose, header, seal
from shared.runtime.keyring import FileRingSource, FixedRingSource, write_ring

LOOKUP = bytes(32)
OLD = KeyRing(active="k1", keys={"k1": b"1" * 32}, lookup_key=LOOKUP)
NEW = KeyRing(active="k2", keys={"k1": b"1" * 32, "k2": b"2" * 32}, lookup_key=LOOKUP)
LOST = KeyRing(active="k1", keys={"k1": b"1" * 32}, lookup_key=LOOKUP, lost=frozenset({"k2"}))
ROW = UUID(int=7)


def sealed(ring: KeyRing, row: UUID = ROW) -> bytes:
    return seal(ring, Purpose.OUTBOX, row.bytes, b"payload")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("missing_sec", "rest_sec"), [(0, 1), (1.9, 1), (10, 5), (120, 60), (86_400, 60)])
def test_rows_rest_longer_the_longer_their_key_is_missing_up_to_a_minute(missing_sec: float, rest_sec: float) -> None:
    assert wait_sec(missing_sec) == rest_sec


def test_old_and_new_keys_open() -> None:
    opener = Opener(FixedRingSource(NEW), clock=Clock())

    assert opener.open(ROW, sealed(OLD)) == b"payload"
    assert opener.open(ROW, sealed(NEW)) == b"payload"


def test_a_key_that_is_not_there_yet_is_waited_for() -> None:
    clock = Clock()
    opener = Opener(FixedRingSource(OLD), clock=clock)

    assert opener.open(ROW, sealed(NEW)) == Postponed("k2", 1.0)
    clock.now += 30
    assert opener.open(ROW, sealed(NEW)) == Postponed("k2", 15.0)


def test_a_key_added_since_is_found_at_once_and_looked_for_once_a_second(tmp_path: Path) -> None:
    ring = tmp_path / "ring.json"
    write_ring(ring, OLD)
    clock = Clock()
    opener = Opener(FileRingSource(ring), clock=clock)
    assert opener.open(ROW, sealed(NEW)) == Postponed("k2", 1.0)

    write_ring(ring, NEW)
    assert opener.open(ROW, sealed(NEW)) == Postponed("k2", 1.0), "not for every row of a batch"
    clock.now += 1
    assert opener.open(ROW, sealed(NEW)) == b"payload"


def test_rows_of_a_missing_key_are_left_alone_until_it_comes_or_is_known_as_lost(tmp_path: Path) -> None:
    ring = tmp_path / "ring.json"
    write_ring(ring, OLD)
    rings = FileRingSource(ring)
    opener = Opener(rings, clock=Clock(), leave_sec=3)
    assert opener.left_alone() == LeftAlone([], 3), "not before it is known to be missing"

    opener.open(ROW, sealed(NEW))
    assert opener.left_alone() == LeftAlone([header("k2")], 3)

    for found in (NEW, LOST):
        write_ring(ring, found)
        rings.refresh()
        assert opener.left_alone() == LeftAlone([], 3)


def test_a_ring_that_cannot_be_read_just_now_is_waited_for(tmp_path: Path) -> None:
    ring = tmp_path / "ring.json"
    write_ring(ring, OLD)
    opener = Opener(FileRingSource(ring), clock=Clock())
    ring.write_text("{")

    assert opener.open(ROW, sealed(NEW)) == Postponed("k2", 1.0)
    assert opener.open(ROW, sealed(OLD)) == b"payload"


def test_a_lost_key_and_another_row_s_value_are_refused() -> None:
    opener = Opener(FixedRingSource(LOST), clock=Clock())

    lost, moved = opener.open(ROW, sealed(NEW)), opener.open(ROW, sealed(OLD, new_id()))

    assert isinstance(lost, Refusal)
    assert (lost.error_class, "'k2'" in lost.detail) == ("lost_key", True)
    assert isinstance(moved, Refusal)
    assert moved.error_class == "tampered"
