"""`POST /internal/v1/notifications` and what reads back, on real PostgreSQL, Kafka and sockets."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from shared.core.identifier import NOTIFICATION, parse_public_id
from shared.core.sealing import KeyRing, Purpose, open_sealed
from tests.integration.ingest.conftest import Ingest, add_key, order

PATH = "/internal/v1/notifications"


async def test_accepts_and_stores_everything_in_one_commit(ingest: Ingest, key_ring: KeyRing) -> None:
    """202 means: notification, dedup row and outbox row are there, params are sealed, the user exists."""
    response = await ingest.accept()
    assert response.status_code == 202
    body = response.json()
    assert list(body) == ["notificationId"]
    identifier = parse_public_id(NOTIFICATION, body["notificationId"])
    row = await ingest.pool.fetchrow(
        "SELECT n.*, r.external_id FROM ulak.notifications n JOIN ulak.recipients r USING (user_id) WHERE id = $1",
        identifier,
    )
    assert row is not None
    assert (row["external_id"], row["event_id"], row["state"], row["message_class"], row["mode"]) == (
        "7",
        "order-98213-SHIPPED",
        "ACCEPTED",
        1,
        "live",
    )
    assert row["expires_at"] - row["created_at"] == timedelta(days=1)
    params = orjson.loads(open_sealed(key_ring, Purpose.PARAMS, identifier.bytes, row["params_sealed"]))
    assert params["carrier"] == "Kargo A"
    assert await ingest.pool.fetchval("SELECT notification_id FROM ulak.notification_dedup") == identifier


async def test_same_request_again_answers_the_first_record(ingest: Ingest) -> None:
    first = await ingest.accept()
    again = await ingest.accept(params=dict(reversed(order()["params"].items())), userId="7")
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"userId": 8}, id="other-user"),
        pytest.param({"params": {**order()["params"], "carrier": "Kargo B"}}, id="other-params"),
    ],
)
async def test_same_key_with_another_body_is_refused_A1(ingest: Ingest, change: dict[str, Any]) -> None:
    first = await ingest.accept()
    other = await ingest.accept(**change)
    assert other.status_code == 409
    assert other.headers["content-type"] == "application/problem+json"
    problem = other.json()
    assert problem["code"] == "idempotency_conflict"
    assert first.json()["notificationId"] in problem["detail"]
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 1


async def test_keys_are_per_application_and_type_A1(ingest: Ingest) -> None:
    """The same event id of another application, or for another type, is another notification."""
    secret = await add_key(ingest.pool, application="blog")
    first = await ingest.accept()
    other = await ingest.post(PATH, order(userId=9), headers={"authorization": f"Bearer {secret}"})
    kind = await ingest.accept(type="PASSWORD_CHANGED", params={})
    assert [first.status_code, other.status_code, kind.status_code] == [202, 202, 202]


async def test_fifty_at_once_with_one_key_are_one_notification(ingest: Ingest) -> None:
    answers = await asyncio.gather(*(ingest.accept() for _ in range(50)))
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [202]
    assert len({answer.json()["notificationId"] for answer in answers}) == 1
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 1


async def test_fifty_new_users_at_once_all_arrive(ingest: Ingest) -> None:
    answers = await asyncio.gather(*(ingest.accept(eventId=f"e-{n}", userId=f"u-{n % 10}") for n in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 50
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 10


async def test_priority_lowers_and_raising_is_clamped(ingest: Ingest) -> None:
    lowered = await ingest.accept(eventId="a", priority="bulk")
    raised = await ingest.accept(eventId="b", priority="SECURITY")
    assert "priority" not in lowered.json()
    assert raised.json()["priority"] == {"requested": "SECURITY", "applied": "tx"}
    rows = await ingest.pool.fetch("SELECT event_id, message_class FROM ulak.notifications ORDER BY event_id")
    assert [tuple(row) for row in rows] == [("a", 2), ("b", 1)]


async def test_send_at_defers_with_a_due_row_and_no_outbox_row(ingest: Ingest) -> None:
    at = datetime.now(UTC) + timedelta(hours=3)
    response = await ingest.accept(sendAt=at.isoformat())
    assert response.status_code == 202
    row = await ingest.pool.fetchrow("SELECT state, send_at, expires_at FROM ulak.notifications")
    assert row is not None
    assert (row["state"], row["send_at"], row["expires_at"]) == ("DEFERRED", at, at + timedelta(days=1))
    assert await ingest.pool.fetchval("SELECT due_at FROM ulak.deferred") == at
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.outbox") == 0


async def test_inline_recipient_is_stored_sealed_and_updated(ingest: Ingest, key_ring: KeyRing) -> None:
    """First sight stores it; a later request replaces what it says, no more; a repetition changes nothing."""
    profile = {"email": "Ayse@Example.com", "phone": "0532 123 45 67", "locale": "tr-TR", "timeZone": "Europe/Istanbul"}
    await ingest.accept(eventId="a", recipient=profile)
    await ingest.accept(eventId="b", recipient={"email": "ayse@example.org"})
    await ingest.accept(eventId="a", recipient={"email": "late@example.com"})
    row = await ingest.pool.fetchrow("SELECT * FROM ulak.recipients")
    assert row is not None
    email = open_sealed(key_ring, Purpose.ADDRESS, row["email_key"], row["email_sealed"])
    phone = open_sealed(key_ring, Purpose.ADDRESS, row["phone_key"], row["phone_sealed"])
    assert (email, phone, row["locale"], row["time_zone"]) == (
        b"ayse@example.org",
        b"+905321234567",
        "tr-TR",
        "Europe/Istanbul",
    )


async def test_missing_parameters_are_named(ingest: Ingest) -> None:
    response = await ingest.accept(params={"orderNo": "98213", "carrier": None})
    assert response.status_code == 422
    assert response.json() == {
        "type": "urn:ulak:problem:template-parameters-missing",
        "title": "Template parameters are missing",
        "status": 422,
        "code": "template_parameters_missing",
        "detail": "ORDER_SHIPPED for EMAIL in tr needs carrier and trackingUrl. Send them in params.",
        "errors": [{"path": "params.carrier"}, {"path": "params.trackingUrl"}],
    }
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 0


async def test_parameters_are_those_of_the_recipients_locale(ingest: Ingest) -> None:
    """The German template wants more: only who reads German must bring it, inline or known from before."""
    plain = await ingest.accept(eventId="a", type="PASSWORD_CHANGED", params={})
    german = await ingest.accept(eventId="b", type="PASSWORD_CHANGED", params={}, recipient={"locale": "de-AT"})
    assert (plain.status_code, german.status_code) == (202, 422)
    await ingest.accept(eventId="c", recipient={"locale": "de"})
    known = await ingest.accept(eventId="d", type="PASSWORD_CHANGED", params={})
    assert known.json()["errors"] == [{"path": "params.device"}]


async def test_get_tells_where_it_stands(ingest: Ingest) -> None:
    identifier = (await ingest.accept()).json()["notificationId"]
    by_id = await ingest.client.get(f"{PATH}/{identifier}")
    by_event = await ingest.client.get(PATH, params={"eventId": "order-98213-SHIPPED"})
    assert by_id.status_code == by_event.status_code == 200
    body = by_id.json()
    assert by_event.json() == body
    assert (body["notificationId"], body["eventId"], body["userId"], body["type"], body["state"]) == (
        identifier,
        "order-98213-SHIPPED",
        "7",
        "ORDER_SHIPPED",
        "ACCEPTED",
    )
    assert body["deliveries"] == []


async def test_get_of_what_is_not_there(ingest: Ingest) -> None:
    absent = await ingest.client.get(f"{PATH}/ntf_01kbapv8a4fevs0dqf3qx5kpkx")
    broken = await ingest.client.get(f"{PATH}/nonsense_1")
    expired = await ingest.client.get(PATH, params={"eventId": "never"})
    nameless = await ingest.client.get(PATH)
    assert [(r.status_code, r.json()["code"]) for r in (absent, broken, expired, nameless)] == [
        (404, "notification_not_found"),
        (422, "invalid_id"),
        (404, "event_id_expired"),
        (422, "invalid_request"),
    ]


async def test_other_applications_notifications_are_not_there(ingest: Ingest) -> None:
    identifier = (await ingest.accept()).json()["notificationId"]
    secret = await add_key(ingest.pool, application="blog", scopes=("notifications",))
    headers = {"authorization": f"Bearer {secret}"}
    for path in (f"{PATH}/{identifier}", f"{PATH}/{identifier}/explain"):
        assert (await ingest.client.get(path, headers=headers)).status_code == 404
    assert (await ingest.client.post(f"{PATH}/{identifier}/cancel", headers=headers)).status_code == 404


async def test_event_id_with_two_types_asks_for_the_type(ingest: Ingest) -> None:
    await ingest.accept()
    second = await ingest.accept(type="PASSWORD_CHANGED", params={})
    both = await ingest.client.get(PATH, params={"eventId": "order-98213-SHIPPED"})
    one = await ingest.client.get(PATH, params={"eventId": "order-98213-SHIPPED", "type": "PASSWORD_CHANGED"})
    assert (both.status_code, both.json()["code"]) == (409, "event_id_ambiguous")
    assert one.json()["notificationId"] == second.json()["notificationId"]


async def test_batch_answers_each_item_for_itself(ingest: Ingest) -> None:
    items = [
        order(eventId="a"),
        order(eventId="a"),
        order(eventId="b", type="NOPE"),
        {"eventId": "c"},
        order(eventId="d"),
    ]
    response = await ingest.post(f"{PATH}/batch", {"items": items})
    assert response.status_code == 200
    results = response.json()["results"]
    assert [result["status"] for result in results] == [202, 200, 422, 422, 202]
    assert results[0]["notificationId"] == results[1]["notificationId"]
    assert results[2]["problem"]["code"] == "unknown_type"
    assert {"path": "userId", "detail": "this field is required: send it"} in results[3]["problem"]["errors"]


async def test_batch_over_the_limit_is_refused_as_a_whole_A4(ingest: Ingest) -> None:
    items = [order(eventId=f"e-{n}") for n in range(1001)]
    response = await ingest.post(f"{PATH}/batch", {"items": items})
    assert (response.status_code, response.json()["code"]) == (413, "batch_too_large")
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 0
    thousand = await ingest.post(f"{PATH}/batch", {"items": items[:1000]})
    assert {result["status"] for result in thousand.json()["results"]} == {202}
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 1000


async def test_explain_tells_the_acceptance(ingest: Ingest) -> None:
    identifier = (await ingest.accept()).json()["notificationId"]
    body = (await ingest.client.get(f"{PATH}/{identifier}/explain")).json()
    assert body["summary"] == "It is accepted and waits to be decided."
    assert body["steps"][0]["text"].startswith(
        "Accepted as ORDER_SHIPPED for user 7, event order-98213-SHIPPED, class tx;"
    )


async def test_explain_in_turkish_by_parameter_or_header(ingest: Ingest) -> None:
    path = f"{PATH}/{(await ingest.accept()).json()['notificationId']}/explain"
    for answer in (
        await ingest.client.get(path, params={"lang": "tr"}),
        await ingest.client.get(path, headers={"accept-language": "tr-TR, en;q=0.5"}),
    ):
        assert answer.json()["summary"] == "Kabul edildi, karar verilmesini bekliyor."
    unknown = await ingest.client.get(path, params={"lang": "de"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "invalid_request")
