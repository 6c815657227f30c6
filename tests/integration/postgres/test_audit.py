"""The audit is silent on a sound database and finds each fault, alone and named."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from shared.postgres.audit import RULES, audit
from shared.postgres.pool import Pool

pytestmark = pytest.mark.postgres

Plant = Callable[..., Awaitable[None]]
IdOf = Callable[[datetime], UUID]

ID: Any = object()
LONG_AGO: Any = object()
SOON: Any = object()

SOUND: list[tuple[str, dict[str, Any]]] = [
    ("notifications", {"id": ID}),
    ("deliveries", {"notification_id": ID}),
    ("contents", {"notification_id": ID}),
    ("delivery_log", {"notification_id": ID, "id": ID}),
    ("notification_dedup", {"notification_id": ID}),
]
PENDING = {"notification_id": ID, "status": "PENDING"}


def sound_but(*changed: tuple[str, dict[str, Any]], without: str = "") -> list[tuple[str, dict[str, Any]]]:
    names = {table for table, _ in changed}
    return [*changed, *(entry for entry in SOUND if entry[0] not in names and entry[0] != without)]


async def sow(plant: Plant, rows: list[tuple[str, dict[str, Any]]], notification_id: UUID, now: datetime) -> None:
    values = {ID: notification_id, LONG_AGO: now - timedelta(hours=3), SOON: now + timedelta(minutes=5)}
    for table, row in rows:
        await plant(
            table, **{name: values.get(value, value) if type(value) is object else value for name, value in row.items()}
        )


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="empty"),
        pytest.param(SOUND, id="sent"),
        pytest.param(sound_but(("deliveries", PENDING)), id="pending-now"),
        pytest.param(sound_but(("notifications", {"id": ID, "state": "ACCEPTED"})), id="accepted-now"),
        pytest.param(
            sound_but(("notifications", {"id": ID, "state": "ACCEPTED", "created_at": LONG_AGO, "send_at": SOON})),
            id="accepted-for-later",
        ),
        pytest.param(
            [("notifications", {"id": ID, "state": "DEFERRED"}), ("deferred", {"notification_id": ID})], id="deferred"
        ),
        pytest.param(
            sound_but(
                ("deliveries", {**PENDING, "next_attempt_at": LONG_AGO}),
                ("deferred", {"notification_id": ID, "kind": "delivery", "channel": "SMS"}),
            ),
            id="held-by-a-pause",
        ),
        pytest.param(
            sound_but(("deliveries", {**PENDING, "campaign_id": UUID(int=1)}), without="contents"),
            id="campaigns-render-at-send",
        ),
        pytest.param(
            [("notifications", {"id": ID}), ("delivery_log", {"notification_id": ID, "id": ID})],
            id="nothing-to-send-to",
        ),
        pytest.param(
            sound_but(("deliveries", {"notification_id": ID, "status": "SENDING", "lease_until": SOON})), id="sending"
        ),
    ],
)
async def test_a_sound_database_is_clean(
    pool: Pool, plant: Plant, id_of: IdOf, now: datetime, rows: list[tuple[str, dict[str, Any]]]
) -> None:
    await sow(plant, rows, id_of(now), now)
    async with pool.acquire() as connection:
        found = await audit(connection, now)
    assert found.clean, found.findings
    assert len(found.days) == 2


FAULTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "delivery_without_notification": [("deliveries", {"notification_id": ID})],
    "content_without_notification": [("contents", {"notification_id": ID})],
    "log_without_notification": [("delivery_log", {"notification_id": ID, "id": ID})],
    "dedup_without_notification": [("notification_dedup", {"notification_id": ID})],
    "decided_without_trace": [("notifications", {"id": ID})],
    "delivery_without_content": sound_but(("deliveries", PENDING), without="contents"),
    "deferred_without_due_row": sound_but(("notifications", {"id": ID, "state": "DEFERRED"})),
    "decision_overdue": sound_but(("notifications", {"id": ID, "state": "ACCEPTED", "created_at": LONG_AGO})),
    "hint_owed": sound_but(("deliveries", {**PENDING, "next_attempt_at": LONG_AGO})),
    "lease_overdue": sound_but(("deliveries", {"notification_id": ID, "status": "SENDING", "lease_until": LONG_AGO})),
}


def test_every_rule_has_its_fault() -> None:
    assert FAULTS.keys() == RULES.keys()


@pytest.mark.parametrize("rule", FAULTS)
async def test_each_fault_is_found_alone(pool: Pool, plant: Plant, id_of: IdOf, now: datetime, rule: str) -> None:
    notification_id = id_of(now)
    await sow(plant, FAULTS[rule], notification_id, now)
    async with pool.acquire() as connection:
        found = await audit(connection, now)
    assert [(finding.rule, finding.day, finding.count, finding.sample) for finding in found.findings] == [
        (rule, now.date(), 1, (notification_id,))
    ]


async def test_expired_and_still_pending_is_owed(pool: Pool, plant: Plant, id_of: IdOf, now: datetime) -> None:
    later = {"next_attempt_at": now + timedelta(hours=1), "expires_at": now - timedelta(hours=2)}
    await sow(plant, sound_but(("deliveries", {**PENDING, **later})), id_of(now), now)
    async with pool.acquire() as connection:
        assert [finding.rule for finding in (await audit(connection, now)).findings] == ["hint_owed"]


async def test_a_sample_is_short_and_days_can_be_chosen(pool: Pool, plant: Plant, id_of: IdOf, now: datetime) -> None:
    yesterday = now - timedelta(days=1)
    ids = sorted(id_of(yesterday) for _ in range(7))
    for notification_id in ids:
        await plant("contents", notification_id=notification_id)
    async with pool.acquire() as connection:
        [finding] = (await audit(connection, now)).findings
        assert (finding.count, finding.sample) == (7, tuple(ids[:5]))
        assert (await audit(connection, now, newest_days=1)).clean
