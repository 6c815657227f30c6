"""What a replay may do about a dead letter: the whole table."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.core.lifecycle import REPAIRABLE, DeliveryStatus, Reason
from shared.core.replay import STAYS_OPEN, WORDS, Kind, Standing, Verdict, kind_of, verdict

NOW = datetime(2026, 1, 15, 9, tzinfo=UTC)
FAILED = Standing(
    status=DeliveryStatus.FAILED,
    reason=Reason.EXHAUSTED,
    expires_at=NOW + timedelta(seconds=1),
    cancelled=False,
    suppressed=False,
    superseded=False,
    has_content=True,
)


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        pytest.param(FAILED, Verdict.REPLAYED, id="exhausted"),
        pytest.param(replace(FAILED, reason=Reason.RENDER), Verdict.REPLAYED, id="mended"),
        pytest.param(None, Verdict.GONE, id="no-row"),
        pytest.param(replace(FAILED, status=DeliveryStatus.SENT), Verdict.SENT, id="sent"),
        pytest.param(replace(FAILED, status=DeliveryStatus.DELIVERED), Verdict.SENT, id="delivered"),
        pytest.param(replace(FAILED, status=DeliveryStatus.UNKNOWN), Verdict.UNKNOWN, id="unknown"),
        pytest.param(replace(FAILED, status=DeliveryStatus.PENDING), Verdict.UNDER_WAY, id="pending"),
        pytest.param(replace(FAILED, status=DeliveryStatus.SENDING), Verdict.UNDER_WAY, id="sending"),
        pytest.param(replace(FAILED, status=DeliveryStatus.SKIPPED), Verdict.SKIPPED, id="skipped"),
        pytest.param(replace(FAILED, reason=Reason.PERMANENT), Verdict.PERMANENT, id="refused-for-good"),
        pytest.param(replace(FAILED, cancelled=True), Verdict.CANCELLED, id="cancelled"),
        pytest.param(replace(FAILED, has_content=False), Verdict.NO_CONTENT, id="content-gone"),
        pytest.param(replace(FAILED, expires_at=NOW), Verdict.EXPIRED, id="expired-this-very-moment"),
        pytest.param(replace(FAILED, superseded=True), Verdict.SUPERSEDED, id="newer-code"),
        pytest.param(replace(FAILED, suppressed=True), Verdict.SUPPRESSED, id="suppressed"),
        pytest.param(replace(FAILED, cancelled=True, suppressed=True), Verdict.CANCELLED, id="cancelled-comes-first"),
    ],
)
def test_verdicts(standing: Standing | None, expected: Verdict) -> None:
    assert verdict(standing, NOW) is expected


@pytest.mark.parametrize("reason", list(Reason))
def test_only_what_a_repair_can_help_goes_again(reason: Reason) -> None:
    assert (verdict(replace(FAILED, reason=reason), NOW) is Verdict.REPLAYED) is (reason in REPAIRABLE)


def test_every_verdict_has_words_and_what_stays_open_is_never_sent() -> None:
    assert set(WORDS) == set(Verdict)
    assert Verdict.REPLAYED not in STAYS_OPEN


@pytest.mark.parametrize(
    ("error_class", "alone", "kind"),
    [
        ("exhausted", False, Kind.EXHAUSTED),
        ("render", False, Kind.FAILED),
        ("exhausted", True, Kind.POISON),
        ("MalformedMessageError", True, Kind.POISON),
    ],
)
def test_kinds(error_class: str, alone: bool, kind: Kind) -> None:
    assert kind_of(error_class, in_kafka_alone=alone) is kind
