"""`/internal/v1/otp-messages` on real PostgreSQL: stored whole, superseded right, told without the code."""

import asyncio

import orjson
import pytest

from services.ingest.__main__ import Surfaces
from shared.core.address import target_key
from shared.core.identifier import NOTIFICATION, parse_public_id
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.kafka.settings import KafkaSettings
from shared.wire.message import DeliveryHint
from tests.integration.ingest.conftest import Ingest, add_key, otp, running
from tests.integration.relay.rows import retold

PATH = "/internal/v1/otp-messages"


async def test_accepts_a_code_with_all_its_rows(ingest: Ingest, key_ring: KeyRing) -> None:
    """202 means: decided, rendered, sealed, pending, queued for the lane and due for direct dispatch."""
    response = await ingest.send_code(phone="0532 123 45 67")
    assert response.status_code == 202
    identifier = parse_public_id(NOTIFICATION, response.json()["notificationId"])
    row = await ingest.pool.fetchrow(
        "SELECT n.state, n.user_id, n.message_class, d.*, c.sealed, c.purpose, c.locale "
        "FROM ulak.notifications n JOIN ulak.deliveries d ON d.notification_id = n.id "
        "JOIN ulak.contents c ON c.notification_id = n.id WHERE n.id = $1",
        identifier,
    )
    assert row is not None
    assert (row["state"], row["user_id"], row["message_class"], row["channel"], row["status"], row["promise"]) == (
        "DECIDED",
        None,
        0,
        "SMS",
        "PENDING",
        "AT_LEAST_ONCE",
    )
    key = target_key(key_ring, "SMS", "+905321234567")
    assert row["target_key"] == key
    assert open_sealed(key_ring, Purpose.ADDRESS, key, row["address_sealed"]) == b"+905321234567"
    content = open_sealed(key_ring, Purpose.OTP, identifier.bytes + b"SMS", row["sealed"])
    assert orjson.loads(content) == {"text": "Kodunuz 482913"}
    assert (row["expires_at"] - row["created_at"]).total_seconds() == 180
    due = await ingest.pool.fetchrow("SELECT * FROM ulak.otp_due")
    assert due is not None
    assert (due["due_at"] - row["created_at"]).total_seconds() == 1
    assert await ingest.pool.fetchval("SELECT result FROM ulak.delivery_log") == "go"


async def test_the_hint_is_for_the_otp_lane(ingest: Ingest) -> None:
    response = await ingest.send_code()
    row = await ingest.pool.fetchrow("SELECT * FROM ulak.outbox")
    assert row is not None
    assert (row["topic"], row["message_class"]) == ("otp-sms", 0)
    hint = DeliveryHint.read(orjson.loads(row["payload"]))
    assert hint.notification_id == parse_public_id(NOTIFICATION, response.json()["notificationId"])
    assert (hint.channel, hint.attempt, hint.message_class.label) == ("SMS", 0, "critical")


async def test_same_request_id_is_one_code_A1(ingest: Ingest) -> None:
    answers = await asyncio.gather(*(ingest.send_code() for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [202]
    other = await ingest.send_code(code="111111")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert "482913" not in other.text
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.deliveries") == 1


async def test_newer_code_supersedes_the_waiting_one(ingest: Ingest) -> None:
    """The older one is skipped with its reason, its text and due row are gone, and other teams are told."""
    await ingest.send_code(requestId="a")
    await ingest.send_code(requestId="b", code="222222")
    await ingest.send_code(requestId="c", code="333333", purpose="payment")
    await ingest.send_code(requestId="d", code="444444", phone="+905321234568")
    rows = await ingest.pool.fetch(
        "SELECT n.event_id, d.status, d.reason, c.sealed IS NULL AS cleared, u.due_at IS NOT NULL AS due "
        "FROM ulak.notifications n JOIN ulak.deliveries d ON d.notification_id = n.id "
        "JOIN ulak.contents c ON c.notification_id = n.id "
        "LEFT JOIN ulak.otp_due u ON u.notification_id = n.id ORDER BY event_id"
    )
    assert [tuple(row) for row in rows] == [
        ("a", "SKIPPED", "superseded", True, False),
        ("b", "PENDING", None, False, True),
        ("c", "PENDING", None, False, True),
        ("d", "PENDING", None, False, True),
    ]
    events = await ingest.pool.fetch("SELECT payload FROM ulak.outbox WHERE topic = 'delivery-events'")
    assert [orjson.loads(event["payload"])["type"] for event in events] == ["ulak.delivery.skipped.v1"]
    [skipped] = await ingest.pool.fetch("SELECT * FROM ulak.deliveries WHERE status = 'SKIPPED'")
    assert events[0]["payload"] == retold(skipped)


async def test_codes_at_once_leave_one_waiting(ingest: Ingest) -> None:
    """Whatever groups they land in: one PENDING, and it is the one that is current."""
    answers = await asyncio.gather(*(ingest.send_code(requestId=f"r{n}", code=f"{n:06}") for n in range(30)))
    assert {answer.status_code for answer in answers} == {202}
    pending = await ingest.pool.fetch("SELECT notification_id FROM ulak.deliveries WHERE status = 'PENDING'")
    assert len(pending) == 1
    assert pending[0]["notification_id"] == await ingest.pool.fetchval("SELECT notification_id FROM ulak.otp_current")
    assert (
        await ingest.pool.fetchval("SELECT max(notification_id::text)::uuid FROM ulak.deliveries")
        == (pending[0]["notification_id"])
    )


async def test_test_keys_and_other_applications_supersede_nothing_of_others(ingest: Ingest) -> None:
    for number, (application, kind) in enumerate((("shop", "test"), ("bank", "live"))):
        secret = await add_key(ingest.pool, application=application, kind=kind, scopes=("otp",))
        headers = {"authorization": f"Bearer {secret}"}
        assert (await ingest.post(PATH, otp(requestId=f"x{number}"), headers=headers)).status_code == 202
    await ingest.send_code()
    rows = await ingest.pool.fetch("SELECT mode, status FROM ulak.deliveries ORDER BY notification_id")
    assert [tuple(row) for row in rows] == [("test", "PENDING"), ("live", "PENDING"), ("live", "PENDING")]


async def test_a_code_on_the_wire_is_only_flagged(ingest: Ingest) -> None:
    """SENDING is the worker's: it must not be tried again, and its text may still be read for this one attempt."""
    await ingest.send_code(requestId="a")
    await ingest.pool.execute("UPDATE ulak.deliveries SET status = 'SENDING'")
    await ingest.send_code(requestId="b", code="222222")
    row = await ingest.pool.fetchrow(
        "SELECT d.status, d.cancel_requested, c.sealed FROM ulak.deliveries d "
        "JOIN ulak.contents c USING (notification_id) ORDER BY notification_id"
    )
    assert row is not None
    assert (row["status"], row["cancel_requested"], row["sealed"] is not None) == ("SENDING", True, True)


async def test_state_is_told_without_the_code(ingest: Ingest) -> None:
    identifier = (await ingest.send_code()).json()["notificationId"]
    response = await ingest.client.get(f"{PATH}/login-1")
    body = response.json()
    assert (response.status_code, body["notificationId"], body["status"], body["attempts"]) == (
        200,
        identifier,
        "PENDING",
        0,
    )
    assert "482913" not in response.text
    absent = await ingest.client.get(f"{PATH}/never")
    assert (absent.status_code, absent.json()["code"]) == (404, "request_id_expired")


async def test_user_and_language(ingest: Ingest, key_ring: KeyRing) -> None:
    """The user's known language is used where the request names none."""
    await ingest.accept(recipient={"locale": "en-GB"})
    response = await ingest.send_code(userId=7)
    identifier = parse_public_id(NOTIFICATION, response.json()["notificationId"])
    sealed = await ingest.pool.fetchval("SELECT sealed FROM ulak.contents WHERE notification_id = $1", identifier)
    content = open_sealed(key_ring, Purpose.OTP, identifier.bytes + b"SMS", sealed)
    assert orjson.loads(content) == {"text": "Your code is 482913, for 3 min"}
    external = await ingest.pool.fetchval(
        "SELECT external_id FROM ulak.notifications JOIN ulak.recipients USING (user_id) WHERE id = $1", identifier
    )
    assert external == "7"


@pytest.mark.parametrize(
    ("change", "code", "path"),
    [
        pytest.param({"phone": "+902121234567"}, "invalid_address", "phone", id="landline"),
        pytest.param({"phone": "12"}, "invalid_address", "phone", id="no-number"),
        pytest.param({"code": "123"}, "invalid_request", "code", id="short-code"),
        pytest.param({"code": "12 34"}, "invalid_request", "code", id="code-with-space"),
        pytest.param({"expiresInSeconds": 5}, "invalid_request", "expiresInSeconds", id="too-short"),
        pytest.param({"expiresInSeconds": 6000}, "invalid_request", "expiresInSeconds", id="too-long"),
        pytest.param({"expiresInSeconds": "180"}, "invalid_request", "expiresInSeconds", id="text-for-number"),
        pytest.param({"domain": "example.com"}, "invalid_request", "domain", id="unknown-field"),
    ],
)
async def test_refusals_name_the_field_and_never_the_value(
    ingest: Ingest, change: dict[str, object], code: str, path: str
) -> None:
    response = await ingest.send_code(**change)
    assert (response.status_code, response.json()["code"]) == (422, code)
    assert [error["path"] for error in response.json()["errors"]] == [path]
    assert str(change.get("phone", "482913")) not in response.text or len(str(change.get("phone", ""))) < 4


async def test_each_surface_serves_its_own_calls(
    database: str, kafka_settings: KafkaSettings, key_ring: KeyRing, ingest: Ingest
) -> None:
    async with running(database, kafka_settings, key_ring, surfaces=[Surfaces.OTP]) as (url, _):
        assert (await ingest.client.post(f"{url}{PATH}", json=otp())).status_code == 202
        assert (await ingest.client.post(f"{url}/internal/v1/notifications", json={})).status_code == 404
    async with running(database, kafka_settings, key_ring, surfaces=[Surfaces.GENERAL]) as (url, _):
        assert (await ingest.client.post(f"{url}{PATH}", json=otp())).status_code == 404
