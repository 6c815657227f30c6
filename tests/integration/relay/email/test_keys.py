"""Sealed and clear rows, rotations, keys that are unknown and keys that are lost (seed 001)."""

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from shared.core.outcome import (
    Transient,
)
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.runtime import metrics
from shared.runtime.keyring import FixedRingSource, KeyRingError
from tests.integration.relay.email.world import AYSE, BORA, World, counted

pytestmark = pytest.mark.postgres

BUSY = Transient("end 451 4.3.0", not_processed=True)


async def test_a_clear_row_is_sealed_with_its_first_outcome_and_opens_again(world: World) -> None:
    row_id = await world.enqueue(AYSE)
    world.server.answers[AYSE] = [BUSY]
    assert not (await world.row(row_id))["sealed"]
    await world.drain()

    row = await world.row(row_id)
    assert row["sealed"]
    assert AYSE.encode() not in row["recipients"]
    opened = open_sealed(world.ring, Purpose.OUTBOX, row_id.bytes + b"recipients", row["recipients"])
    assert orjson.loads(opened)["to"] == [AYSE]
    opened = open_sealed(world.ring, Purpose.OUTBOX, row_id.bytes + b"parameters", row["parameters"])
    assert orjson.loads(opened) == {"orderNo": "98213"}
    await world.due_now(row_id)
    await world.drain()
    row = await world.row(row_id)
    assert (row["status"], row["parameters"]) == ("SENT", None)
    opened = open_sealed(world.ring, Purpose.OUTBOX, row_id.bytes + b"recipients", row["recipients"])
    assert orjson.loads(opened)["to"] == [AYSE], "the record still says where it went"


async def test_a_row_that_came_sealed_is_opened_with_its_own_key(world: World) -> None:
    old = KeyRing(active="k0", keys={"k0": b"0" * 32}, lookup_key=world.ring.lookup_key)
    both = KeyRing("k1", {**world.ring.keys, **old.keys}, world.ring.lookup_key)
    row_id = await world.enqueue_sealed(old)
    await world.drain(rings=FixedRingSource(both))
    assert (await world.row(row_id))["status"] == "SENT"


class LateRing:
    """A ring whose new key arrives when somebody looks again."""

    def __init__(self, now: KeyRing, later: KeyRing) -> None:
        self.ring = now
        self._later = later

    def refresh(self) -> bool:
        changed = self.ring != self._later
        self.ring = self._later
        return changed


async def test_a_key_that_a_rotation_brings_is_found_at_once(world: World) -> None:
    new = KeyRing(active="k2", keys={"k2": b"2" * 32}, lookup_key=world.ring.lookup_key)
    both = KeyRing("k2", {**world.ring.keys, **new.keys}, world.ring.lookup_key)
    row_id = await world.enqueue_sealed(new)
    await world.drain(rings=LateRing(world.ring, both))
    assert (await world.row(row_id))["status"] == "SENT"


async def test_a_row_whose_key_is_unknown_waits_and_holds_nobody_up(world: World) -> None:
    stranger = KeyRing(active="k9", keys={"k9": b"9" * 32}, lookup_key=world.ring.lookup_key)
    waiting = await world.enqueue_sealed(stranger)
    others = [await world.enqueue(f"user{number}@example.com") for number in range(25)]
    before = counted(metrics.EMAIL_UNSEALABLE, "shop", "unknown")
    await world.drain()

    row = await world.row(waiting)
    assert (row["status"], row["attempt_count"], row["sealed"]) == ("PENDING", 0, True)
    assert row["parameters"] is not None
    assert row["next_attempt_at"] > datetime.now(UTC) + timedelta(seconds=20)
    assert "k9" in row["error_message"]
    assert counted(metrics.EMAIL_UNSEALABLE, "shop", "unknown") == before + 1
    assert {(await world.row(other))["status"] for other in others} == {"SENT"}

    both = KeyRing("k1", {**world.ring.keys, **stranger.keys}, world.ring.lookup_key)
    await world.due_now(waiting)
    await world.drain(rings=FixedRingSource(both))
    assert (await world.row(waiting))["status"] == "SENT"


class BrokenRing:
    """Its file cannot be read any more; what was read of it stays."""

    def __init__(self, ring: KeyRing) -> None:
        self.ring = ring

    def refresh(self) -> bool:
        raise KeyRingError("the key ring cannot be read")


async def test_a_ring_that_cannot_be_read_again_holds_up_only_who_needs_it(world: World) -> None:
    stranger = KeyRing(active="k9", keys={"k9": b"9" * 32}, lookup_key=world.ring.lookup_key)
    waiting, after = await world.enqueue_sealed(stranger), await world.enqueue(BORA)
    await world.drain(rings=BrokenRing(world.ring))
    assert (await world.row(waiting))["status"] == "PENDING"
    assert (await world.row(after))["status"] == "SENT"


async def test_a_row_whose_key_is_lost_is_refused_and_counted(world: World) -> None:
    stranger = KeyRing(active="k9", keys={"k9": b"9" * 32}, lookup_key=world.ring.lookup_key)
    ring = KeyRing("k1", world.ring.keys, world.ring.lookup_key, lost=frozenset({"k9"}))
    row_id = await world.enqueue_sealed(stranger)
    after = await world.enqueue(BORA)
    before = counted(metrics.EMAIL_UNSEALABLE, "shop", "lost")
    await world.drain(rings=FixedRingSource(ring))

    row = await world.row(row_id)
    assert row["status"] == "FAILED"
    assert row["error_message"].startswith("unsealable: sealed under key 'k9'")
    assert counted(metrics.EMAIL_UNSEALABLE, "shop", "lost") == before + 1
    assert (await world.row(after))["status"] == "SENT"
