"""Opening rows: what opens, what waits for its key, what never will."""

from dataclasses import replace

import orjson
import pytest

from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.ports import Prepared
from shared.core.sealing import KeyRing, Purpose, seal
from shared.delivery.prepare import Unprepared, content_row, prepare
from shared.delivery.row import DeliveryRow
from tests.unit.delivery.test_triage import row

RING = KeyRing(active="k1", keys={"k1": b"1" * 32}, lookup_key=b"l" * 32)
LOST = KeyRing(active="k2", keys={"k2": b"2" * 32}, lookup_key=b"l" * 32, lost=frozenset({"k1"}))
UNKNOWN = KeyRing(active="k2", keys={"k2": b"2" * 32}, lookup_key=b"l" * 32)
PENDING, SKIPPED, FAILED = DeliveryStatus.PENDING, DeliveryStatus.SKIPPED, DeliveryStatus.FAILED


def sealed() -> DeliveryRow:
    base = row(attempt=2)
    return replace(
        base,
        address_sealed=seal(RING, Purpose.ADDRESS, base.key.target_key, b"+905321234567"),
        content_sealed=seal(RING, Purpose.OTP, content_row(base), orjson.dumps({"text": "482913"})),
        content_purpose="otp-v1",
    )


def test_opened_for_the_next_attempt_and_shown_in_no_repr() -> None:
    prepared = prepare(sealed(), RING)
    assert isinstance(prepared, Prepared)
    assert (prepared.address, prepared.content, prepared.attempt) == ("+905321234567", {"text": "482913"}, 3)
    assert "482913" not in repr(prepared)
    assert "532" not in repr(prepared)


@pytest.mark.parametrize(
    ("found", "ring", "status", "reason"),
    [
        pytest.param(sealed(), UNKNOWN, PENDING, Reason.UNSEALABLE, id="unknown-key-waits"),
        pytest.param(sealed(), LOST, FAILED, Reason.UNSEALABLE, id="lost-key"),
        pytest.param(replace(sealed(), content_sealed=b"\x01garbage"), RING, FAILED, Reason.UNSEALABLE, id="altered"),
        pytest.param(replace(sealed(), content_purpose="nonsense"), RING, FAILED, Reason.UNSEALABLE, id="purpose"),
        pytest.param(replace(sealed(), content_sealed=None), RING, SKIPPED, Reason.SUPERSEDED, id="code-cleared"),
        pytest.param(
            replace(sealed(), content_sealed=None, content_purpose=None), RING, FAILED, Reason.RENDER, id="no-content"
        ),
        pytest.param(replace(sealed(), address_sealed=None), RING, FAILED, Reason.NO_TARGET, id="no-address"),
    ],
)
def test_what_does_not_open(found: DeliveryRow, ring: KeyRing, status: DeliveryStatus, reason: Reason) -> None:
    result = prepare(found, ring)
    assert isinstance(result, Unprepared)
    assert (result.status, result.reason) == (status, reason)
