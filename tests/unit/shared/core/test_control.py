"""Which pause concerns what."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.core.control import NONE, Controls, Pause, PauseKind, template_key

AT = datetime(2026, 12, 1, 12, tzinfo=UTC)
KEY = UUID(int=7)


def _pause(kind: PauseKind, key: str, *, number: int = 1, minutes: int = 0) -> Pause:
    return Pause(UUID(int=number), kind, key, "wrong price", "operator ada", AT + timedelta(minutes=minutes))


def test_nothing_said_holds_nothing() -> None:
    assert not NONE.holding
    assert NONE.lane("push-tx") is None
    assert NONE.provider("fcm", "push-tx") is None
    assert NONE.of(type_name="SALE", api_key_id=KEY) is None


@pytest.mark.parametrize(
    ("kind", "key", "holding"),
    [
        (PauseKind.LANE, "push-bulk", False),
        (PauseKind.PROVIDER, "fcm", False),
        (PauseKind.TYPE, "SALE", True),
        (PauseKind.TEMPLATE, "SALE/PUSH/tr/3", True),
        (PauseKind.API_KEY, str(KEY), True),
    ],
)
def test_only_pauses_told_by_a_notification_have_it_read(kind: PauseKind, key: str, holding: bool) -> None:
    assert Controls(2, (_pause(kind, key),)).holding is holding


@pytest.mark.parametrize(
    ("kind", "key", "held"),
    [
        (PauseKind.TYPE, "SALE", True),
        (PauseKind.TYPE, "sale", False),
        (PauseKind.TEMPLATE, template_key("SALE", "PUSH", "tr", 3), True),
        (PauseKind.TEMPLATE, template_key("SALE", "PUSH", "tr", 4), False),
        (PauseKind.TEMPLATE, template_key("SALE", "EMAIL", "tr", 3), False),
        (PauseKind.API_KEY, str(KEY), True),
        (PauseKind.API_KEY, str(UUID(int=8)), False),
    ],
)
def test_a_notification_is_held_by_what_names_it(kind: PauseKind, key: str, held: bool) -> None:
    controls = Controls(2, (_pause(kind, key),))
    found = controls.of(type_name="SALE", api_key_id=KEY, templates=["SALE/PUSH/tr/3"])
    assert (found is not None) is held


def test_a_notification_without_a_key_is_held_by_none() -> None:
    assert Controls(2, (_pause(PauseKind.API_KEY, str(KEY)),)).of(type_name="SALE", api_key_id=None) is None


def test_of_several_the_oldest_holds() -> None:
    newer, older = _pause(PauseKind.TYPE, "SALE", minutes=5), _pause(PauseKind.API_KEY, str(KEY), number=2)
    assert Controls(3, (newer, older)).of(type_name="SALE", api_key_id=KEY) == older


def test_login_codes_stand_still_for_their_lane_alone() -> None:
    controls = Controls(2, (_pause(PauseKind.PROVIDER, "twilio"), _pause(PauseKind.LANE, "otp-sms", number=2)))
    assert controls.provider("twilio", "sms-tx") is not None
    assert controls.provider("twilio", "otp-sms") is None
    assert controls.lane("otp-sms") is not None
