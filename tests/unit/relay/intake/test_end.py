"""What a row says of a message that is over."""

from datetime import UTC, datetime, timedelta

import pytest

from services.relay.intake.end import Ended, row_end
from shared.core.lifecycle import DeliveryStatus, Reason

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
ADA, BOB, CAI = b"\x03", b"\x01", b"\x02"
POSITIONS = {ADA: 0, BOB: 1, CAI: 2}


def ended(
    key: bytes, status: DeliveryStatus, reason: Reason | None = None, *, detail: str | None = None, attempt: int = 1
) -> Ended:
    reached = status in {DeliveryStatus.SENT, DeliveryStatus.DELIVERED}
    return Ended(key, status, reason, attempt, "smtp", f"id-{key[0]}" if reached else None, detail, AT)


def sent(key: bytes) -> Ended:
    return ended(key, DeliveryStatus.SENT)


def test_sent_once_everybody_has_it() -> None:
    late = AT + timedelta(seconds=3)
    delivered = Ended(BOB, DeliveryStatus.DELIVERED, None, 2, "smtp", "id-1", None, late)

    end = row_end([delivered, sent(ADA)], POSITIONS)

    assert (end.status, end.reason, end.error, end.attempts, end.sent_at) == ("SENT", None, None, 2, late)
    assert end.outcomes == {"0": "SENT", "1": "SENT"}
    assert (end.provider, end.provider_message_id) == ("smtp", "id-3"), "the first recipient's"


@pytest.mark.parametrize(
    ("only", "error", "outcome"),
    [
        (
            ended(ADA, DeliveryStatus.FAILED, Reason.TARGET_GONE, detail="550 5.1.1"),
            "target_gone: 550 5.1.1",
            "FAILED target_gone: 550 5.1.1",
        ),
        (ended(ADA, DeliveryStatus.SKIPPED, Reason.SUPPRESSED), "suppressed", "FAILED suppressed"),
        (ended(ADA, DeliveryStatus.UNKNOWN, Reason.AMBIGUOUS), "ambiguous", "FAILED ambiguous"),
    ],
)
def test_whatever_kept_the_only_recipient_from_it_is_the_row_s_failure(only: Ended, error: str, outcome: str) -> None:
    end = row_end([only], POSITIONS)

    assert (end.status, end.error, end.sent_at) == ("FAILED", error, None)
    assert end.outcomes == {"0": outcome}
    assert end.reason == only.reason


def test_of_several_the_row_says_how_many_and_each_outcome_which() -> None:
    end = row_end(
        [
            ended(CAI, DeliveryStatus.SKIPPED, Reason.EXPIRED),
            ended(BOB, DeliveryStatus.FAILED, Reason.TARGET_GONE, detail="550 5.1.1 no such user", attempt=3),
            sent(ADA),
        ],
        POSITIONS,
    )

    assert end.status == "FAILED"
    assert end.error == "target_gone: 2 of 3 recipients refused: 550 5.1.1 no such user"
    assert end.outcomes == {"0": "SENT", "1": "FAILED target_gone: 550 5.1.1 no such user", "2": "FAILED expired"}
    assert (end.attempts, end.provider_message_id) == (3, "id-3")


def test_a_row_whose_recipients_cannot_be_read_is_ended_without_outcomes() -> None:
    end = row_end([sent(ADA), ended(BOB, DeliveryStatus.FAILED, Reason.PERMANENT)], {})

    assert (end.status, end.error, end.outcomes) == ("FAILED", "permanent: 1 of 2 recipients refused: permanent", {})


def test_an_error_fits_its_column() -> None:
    assert len(row_end([ended(ADA, DeliveryStatus.FAILED, Reason.PERMANENT, detail="x" * 300)], {}).error or "") == 256
