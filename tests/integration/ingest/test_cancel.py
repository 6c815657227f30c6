"""`POST .../cancel` and what explain tells afterwards."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.core.identifier import NOTIFICATION, new_id, parse_public_id
from shared.core.sealing import KeyRing, Purpose, seal
from tests.integration.ingest.conftest import Ingest
from tests.integration.relay.rows import kept, retold

PATH = "/internal/v1/notifications"
MAIL = {
    "template": "ORDER_SHIPPED",
    "parameters": {"orderNo": "98213", "carrier": "Kargo A", "trackingUrl": "https://kargo.example/98213"},
}
KEYS = {"a": b"a" * 32, "b": b"b" * 32, "c": b"c" * 32}


async def decided(ingest: Ingest, ring: KeyRing, **statuses: str) -> tuple[str, UUID]:
    """An accepted notification with a decided delivery per given target and status, as the router writes them."""
    public = (await ingest.accept()).json()["notificationId"]
    identifier = parse_public_id(NOTIFICATION, public)
    await ingest.pool.execute("UPDATE ulak.notifications SET state = 'DECIDED' WHERE id = $1", identifier)
    now = datetime.now(UTC)
    for target, status in statuses.items():
        key = KEYS[target]
        await ingest.pool.execute(
            "INSERT INTO ulak.deliveries (notification_id, channel, target_key, address_sealed, status, message_class, "
            "promise, mode, attempt, next_attempt_at, provider, expires_at, created_at, updated_at) "
            "VALUES ($1, 'PUSH', $2, $3, $4, 1, 'AT_LEAST_ONCE', 'live', 0, $5, $6, $7, $5, $5)",
            identifier,
            key,
            seal(ring, Purpose.ADDRESS, key, f"token-{target}123".encode()),
            status,
            now,
            "apns" if status == "SENT" else None,
            now + timedelta(hours=1),
        )
    return public, identifier


async def test_stops_what_waits_flags_what_flies_counts_what_is_out(ingest: Ingest, key_ring: KeyRing) -> None:
    public, identifier = await decided(ingest, key_ring, a="PENDING", b="SENDING", c="SENT")
    response = await ingest.client.post(f"{PATH}/{public}/cancel")
    assert (response.status_code, response.json()) == (200, {"cancelled": 1, "inFlight": 1, "alreadyOut": 1})
    rows = await ingest.pool.fetch("SELECT * FROM ulak.deliveries ORDER BY target_key")
    assert [(row["status"], row["reason"], row["cancel_requested"]) for row in rows] == [
        ("SKIPPED", "cancelled", True),
        ("SENDING", None, True),
        ("SENT", None, False),
    ]
    events = await ingest.pool.fetch("SELECT payload FROM ulak.outbox WHERE topic = 'delivery-events'")
    assert [event["payload"] for event in events] == [retold(rows[0])]
    body = (await ingest.client.get(f"{PATH}/{public}")).json()
    assert (body["state"], [delivery["target"] for delivery in body["deliveries"]]) == (
        "CANCELLED",
        ["…a123", "…b123", "…c123"],
    )
    again = await ingest.client.post(f"{PATH}/{public}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "nothing_to_cancel")
    assert identifier is not None


async def test_what_is_out_cannot_be_cancelled(ingest: Ingest, key_ring: KeyRing) -> None:
    public, identifier = await decided(ingest, key_ring, a="SENT", b="DELIVERED")
    response = await ingest.client.post(f"{PATH}/{public}/cancel")
    assert (response.status_code, response.json()["code"]) == (409, "nothing_to_cancel")
    assert await ingest.pool.fetchval("SELECT state FROM ulak.notifications WHERE id = $1", identifier) == "DECIDED"


@pytest.mark.parametrize("later", [True, False], ids=["deferred", "accepted"])
async def test_undecided_is_stopped_before_it_starts(ingest: Ingest, later: bool) -> None:
    change = {"sendAt": (datetime.now(UTC) + timedelta(hours=1)).isoformat()} if later else {}
    public = (await ingest.accept(**change)).json()["notificationId"]
    response = await ingest.client.post(f"{PATH}/{public}/cancel")
    assert (response.status_code, response.json()) == (200, {"cancelled": 1, "inFlight": 0, "alreadyOut": 0})
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.deferred") == 0
    assert (await ingest.client.get(f"{PATH}/{public}")).json()["cancelledAt"]


async def test_cancelled_code_is_forgotten(ingest: Ingest) -> None:
    public = (await ingest.send_code()).json()["notificationId"]
    assert (await ingest.client.post(f"{PATH}/{public}/cancel")).json()["cancelled"] == 1
    assert await ingest.pool.fetchval("SELECT sealed FROM ulak.contents") is None
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.otp_due") == 0
    assert (await ingest.client.get("/internal/v1/otp-messages/login-1")).json()["status"] == "SKIPPED"


@pytest.mark.parametrize(
    ("statuses", "needed"),
    [
        pytest.param(["PENDING", "PENDING"], False, id="nobody"),
        pytest.param(["SENT", "PENDING"], False, id="who-has-it"),
        pytest.param(["SENDING", "PENDING"], True, id="who-is-being-sent-to"),
        pytest.param(["FAILED", "PENDING"], True, id="who-can-be-helped"),
    ],
)
async def test_a_cancelled_request_is_kept_for_who_needs_it(ingest: Ingest, statuses: list[str], needed: bool) -> None:
    answer = await ingest.post("/internal/v1/emails", {**MAIL, "to": ["a@example.com", "b@example.com"]})
    public = answer.json()["notificationId"]
    identifier = parse_public_id(NOTIFICATION, public)
    keys = await ingest.pool.fetch("SELECT target_key FROM ulak.deliveries WHERE notification_id = $1", identifier)
    for (key,), status in zip(keys, statuses, strict=True):
        await ingest.pool.execute(
            "UPDATE ulak.deliveries SET status = $2, reason = $3 WHERE target_key = $1",
            key,
            status,
            "exhausted" if status == "FAILED" else None,
        )
    await ingest.client.post(f"{PATH}/{public}/cancel")
    assert await kept(ingest.pool, identifier) is needed


async def test_cancelled_at_once_by_ten_is_cancelled_by_one(ingest: Ingest, key_ring: KeyRing) -> None:
    public, _ = await decided(ingest, key_ring, a="PENDING", b="PENDING")
    answers = await asyncio.gather(*(ingest.client.post(f"{PATH}/{public}/cancel") for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.delivery_log") == 2


async def test_explain_tells_it_in_order(ingest: Ingest, key_ring: KeyRing) -> None:
    public, identifier = await decided(ingest, key_ring, a="PENDING", c="SENT")
    for target, kind, result, attempt in (("a", "verdict", "go", None), ("c", "attempt", "Accepted", 1)):
        await ingest.pool.execute(
            "INSERT INTO ulak.delivery_log (notification_id, id, kind, channel, target_key, attempt, result, provider) "
            "VALUES ($1, $2, $3, 'PUSH', $4, $5, $6, 'apns')",
            identifier,
            new_id(),
            kind,
            KEYS[target],
            attempt,
            result,
        )
    await ingest.client.post(f"{PATH}/{public}/cancel")
    body = (await ingest.client.get(f"{PATH}/{public}/explain")).json()
    assert body["summary"] == "2 deliveries: 1 sent, 1 not sent."
    texts = [step["text"] for step in body["steps"]]
    assert texts[1:3] == ["PUSH to …a123 will be sent.", "PUSH to …c123, attempt 1: apns accepted it."]
    assert set(texts[3:]) == {
        (
            "PUSH to …a123: an operator or the caller asked for `skip` (cancelled by the caller), "
            "because it was cancelled."
        ),
        "Cancelled; nothing new is started.",
    }
    assert [step["at"] for step in body["steps"]] == sorted(step["at"] for step in body["steps"])
