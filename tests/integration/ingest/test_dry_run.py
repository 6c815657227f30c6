"""What would become of a notification: told in full, and nothing of it is left behind."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.core.address import parse_email
from shared.core.consent import user_subject
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from shared.postgres.recipient import DeviceProfile, RecipientProfile, push_recipients
from tests.integration.ingest.conftest import Ingest, order

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.redis]

PATH = "/internal/v1/notifications/dry-run"
AYSE = RecipientProfile(
    "7",
    email=parse_email("ayse@example.com"),
    locale="tr-TR",
    time_zone="Europe/Istanbul",
    devices=(DeviceProfile("a" * 64, "IOS"), DeviceProfile("fcm-token", "ANDROID")),
)


@pytest.fixture
async def shop(ingest: Ingest, key_ring: KeyRing) -> Ingest:
    await push_recipients(ingest.pool, key_ring, [AYSE])
    return ingest


async def tried(ingest: Ingest, lang: str = "en", **changes: Any) -> dict[str, Any]:
    response = await ingest.post(f"{PATH}?lang={lang}", order(**changes))
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def stored(ingest: Ingest) -> list[int]:
    tables = ("notifications", "notification_dedup", "outbox", "deferred", "deliveries", "content_window", "contents")
    return [await ingest.pool.fetchval(f"SELECT count(*) FROM ulak.{table}") for table in tables]


async def test_every_channel_with_its_words_trail_and_content_and_nothing_stored(shop: Ingest) -> None:
    found = await tried(shop)
    assert (found["state"], found["userKnown"], found["class"]) == ("DECIDED", True, "tx")
    push, email = found["channels"]
    assert (push["channel"], push["verdict"], push["targets"]) == ("PUSH", "go", 2)
    assert push["content"] == {"title": "Kargoda", "body": "98213 yolda"}
    assert push["template"] == {"locale": "tr", "version": 1}
    assert push["text"] == "PUSH will be sent."
    assert {step["verdict"] for step in push["trail"]} == {"go"}
    assert [step["rule"] for step in push["trail"]][:2] == ["category", "preference"]
    assert email["content"]["subject"] == "Siparişiniz 98213"
    assert await stored(shop) == [0] * 7
    assert await shop.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 1


async def test_in_turkish_by_parameter_or_header(shop: Ingest) -> None:
    await push_preference_off(shop, "PUSH")
    push, _ = (await tried(shop, "tr"))["channels"]
    assert (push["verdict"], push["reason"]) == ("skip", "preference")
    assert "PUSH" in push["text"]
    assert push["text"] != (await tried(shop))["channels"][0]["text"]
    by_header = await shop.post(PATH, order(), headers={"accept-language": "tr-TR,en;q=0.5"})
    assert by_header.json()["channels"][0]["text"] == push["text"]


async def push_preference_off(ingest: Ingest, channel: str) -> None:
    await ingest.pool.execute(
        "INSERT INTO ulak.user_preferences (user_id, category, channel, enabled) "
        "SELECT user_id, 'TRANSACTIONAL', $1, false FROM ulak.recipients WHERE external_id = '7'",
        channel,
    )


async def test_a_change_of_mind_is_seen_at_once(shop: Ingest) -> None:
    assert (await tried(shop))["channels"][0]["verdict"] == "go"
    await push_preference_off(shop, "PUSH")
    assert (await tried(shop))["channels"][0]["reason"] == "preference"


async def test_an_unknown_user_is_decided_without_targets_and_stays_unknown(shop: Ingest) -> None:
    found = await tried(shop, userId="nobody-yet")
    assert found["userKnown"] is False
    assert {(channel["verdict"], channel["reason"]) for channel in found["channels"]} == {("skip", "no_target")}
    assert await shop.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 1


async def test_what_the_request_says_of_its_recipient_counts_and_is_not_kept(shop: Ingest) -> None:
    found = await tried(shop, userId="nobody-yet", recipient={"email": "yeni@example.com"})
    verdicts = {channel["channel"]: channel["verdict"] for channel in found["channels"]}
    assert verdicts["EMAIL"] == "go"
    assert await shop.pool.fetchval("SELECT count(*) FROM ulak.recipients") == 1


async def test_send_at_defers_and_shows_what_would_be_said_then(shop: Ingest) -> None:
    at = datetime.now(UTC) + timedelta(hours=2)
    found = await tried(shop, sendAt=at.isoformat())
    assert (found["state"], datetime.fromisoformat(found["until"])) == ("DEFERRED", at)
    assert found["channels"][0]["content"]["title"] == "Kargoda"


async def test_sms_tells_its_segments(shop: Ingest) -> None:
    await shop.pool.execute(
        "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active) "
        "VALUES ('ORDER_SHIPPED', 'SMS', 'tr', 1, $1, '{orderNo}', '', true)",
        {"text": "{{ orderNo }} yola çıktı ş"},
    )
    found = await tried(shop, channels=["SMS"], recipient={"phone": "+905321234567"})
    (sms,) = found["channels"]
    assert sms["segments"] == {"encoding": "UCS2", "count": 1, "units": 18}


async def test_a_template_that_cannot_be_rendered_says_why(shop: Ingest) -> None:
    await shop.pool.execute("UPDATE ulak.templates SET parts = $1 WHERE channel = 'PUSH'", {"title": "{{ x.y }}"})
    found = await tried(shop, channels=["PUSH"])
    (push,) = found["channels"]
    assert push["verdict"] == "go"
    assert "content" not in push
    assert push["renderProblem"]


async def test_marketing_looks_at_consent_windows_and_the_day_without_taking_any(
    shop: Ingest, key_ring: KeyRing
) -> None:
    pool = shop.pool
    user = await pool.fetchval("SELECT user_id FROM ulak.recipients")
    await pool.execute("UPDATE ulak.notification_types SET category = 'MARKETING', quiet_hours = '{}'")
    (push,) = (await tried(shop, channels=["PUSH"]))["channels"]
    assert push["reason"] == "no_consent"
    await pool.execute(
        "INSERT INTO ulak.consent_states VALUES ($1, 'PUSH', 'MARKETING', true, now(), $2)",
        user_subject(key_ring, user),
        new_id(),
    )
    for _ in range(5):
        (push,) = (await tried(shop, channels=["PUSH"], businessKey="winter"))["channels"]
        assert push["verdict"] == "go"

    first = new_id()
    await pool.execute(
        "INSERT INTO ulak.content_window VALUES ('ORDER_SHIPPED', $1, 'winter', $2, now() + interval '1 hour')",
        user,
        first,
    )
    found = await tried(shop, channels=["PUSH"], businessKey="winter")
    assert found["channels"][0]["reason"] == "duplicate_content"
    assert found["duplicateOf"].startswith("ntf_")

    for _ in range(3):  # three of today, as the router writes them
        id_ = new_id()
        await pool.execute(
            "INSERT INTO ulak.notifications (id, application_id, event_id, user_id, type, message_class, mode, state, "
            "expires_at, created_at) VALUES ($1, 1, 'x', $2, 'ORDER_SHIPPED', 2, 'live', 'DECIDED', now(), now())",
            id_,
            user,
        )
        await pool.execute(
            "INSERT INTO ulak.deliveries (notification_id, channel, target_key, status, message_class, promise, mode, "
            "next_attempt_at, expires_at, created_at, updated_at) "
            "VALUES ($1, 'PUSH', 'x', 'SENT', 2, 'AT_LEAST_ONCE', 'live', now(), now(), now(), now())",
            id_,
        )
    assert (await tried(shop, channels=["PUSH"]))["channels"][0]["reason"] == "capped"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        pytest.param(order(type="NO_SUCH"), 422, "unknown_type", id="type"),
        pytest.param(order(params={}), 422, "template_parameters_missing", id="parameters"),
        pytest.param({"userId": 7}, 422, "invalid_request", id="fields"),
    ],
)
async def test_what_acceptance_would_refuse_is_refused(shop: Ingest, body: Any, status: int, code: str) -> None:
    tried_out, accepted = await shop.post(PATH, body), await shop.post("/internal/v1/notifications", body)
    assert tried_out.status_code == accepted.status_code == status
    assert tried_out.json() == accepted.json()
    assert tried_out.json()["code"] == code
