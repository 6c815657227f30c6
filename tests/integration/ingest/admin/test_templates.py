"""Templates over the API: drafted, published, rolled back; and what every step leaves behind."""

import asyncio
from typing import Any

import httpx
import orjson
import pytest

from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.wire.message import DeliveryHint, decode
from tests.integration.delivery.world import ScriptedSender, Seeded, make_world
from tests.integration.ingest.admin.audit import audited
from tests.integration.ingest.conftest import Ingest

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PATH = "/internal/v1/templates"
PUSH = f"{PATH}/ORDER_SHIPPED/PUSH/tr"
PARTS = {"title": "Kargoda", "body": "{{ orderNo }} yola çıktı"}


@pytest.fixture(autouse=True)
async def sample(ingest: Ingest) -> None:
    await ingest.pool.execute(
        "UPDATE ulak.notification_types SET sample = $1 WHERE type = 'ORDER_SHIPPED'", {"orderNo": "98213"}
    )


async def draft(ingest: Ingest, parts: Any = PARTS, **changed: Any) -> httpx.Response:
    body = {"type": "ORDER_SHIPPED", "channel": "PUSH", "locale": "tr", "parts": parts} | changed
    return await ingest.client.post(PATH, json=body)


async def publish(ingest: Ingest, version: int) -> httpx.Response:
    return await ingest.client.post(f"{PUSH}/versions/{version}/publish")


async def active(ingest: Ingest) -> int:
    (item,) = (await ingest.client.get(f"{PATH}?type=ORDER_SHIPPED&channel=PUSH&active=true")).json()["items"]
    version: int = item["version"]
    return version


async def test_from_draft_to_use_and_back(ingest: Ingest) -> None:
    drafted = await draft(ingest)
    assert drafted.status_code == 201
    body = drafted.json()
    assert (body["version"], body["state"], body["active"], body["errors"]) == (2, "draft", False, [])
    assert (body["parameters"], body["createdBy"]) == (["orderNo"], "api key test of shop")
    assert await active(ingest) == 1

    published = (await publish(ingest, 2)).json()
    assert (published["state"], published["active"], published["publishedBy"]) == (
        "published",
        True,
        "api key test of shop",
    )
    assert await active(ingest) == 2
    assert (await publish(ingest, 2)).status_code == 200, "twice is once"

    back = await ingest.client.post(f"{PUSH}/rollback", json={})
    assert (back.status_code, back.json()["version"]) == (200, 1)
    assert await active(ingest) == 1
    forward = await ingest.client.post(f"{PUSH}/rollback", json={"version": 2})
    assert forward.json()["version"] == 2
    assert await audited(ingest.pool) == [
        ("drafted", "template", "ORDER_SHIPPED PUSH tr v2"),
        ("published", "template", "ORDER_SHIPPED PUSH tr v2"),
        ("rolled_back", "template", "ORDER_SHIPPED PUSH tr v1"),
        ("rolled_back", "template", "ORDER_SHIPPED PUSH tr v2"),
    ]


async def test_a_draft_changes_and_a_published_version_does_not(ingest: Ingest) -> None:
    first = await draft(ingest)
    url, changed = f"{PUSH}/versions/2", {"parts": PARTS | {"title": "Yolda"}}

    assert (await ingest.client.put(url, json=changed)).status_code == 428
    second = await ingest.client.put(url, json=changed, headers={"if-match": first.headers["etag"]})
    assert (second.status_code, second.json()["parts"]["title"], second.headers["etag"]) == (200, "Yolda", '"2"')
    late = await ingest.client.put(url, json=changed, headers={"if-match": first.headers["etag"]})
    assert late.status_code == 412

    await publish(ingest, 2)
    for answer in (
        await ingest.client.put(url, json=changed, headers={"if-match": "*"}),
        await ingest.client.delete(url, headers={"if-match": "*"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "not_a_draft")


async def test_discarding(ingest: Ingest) -> None:
    tag = (await draft(ingest)).headers["etag"]
    gone = await ingest.client.delete(f"{PUSH}/versions/2", headers={"if-match": tag})
    assert gone.status_code == 204
    assert (await ingest.client.get(f"{PUSH}/versions/2")).status_code == 404


@pytest.mark.parametrize(
    ("parts", "part"),
    [
        pytest.param({"title": "Kargoda", "body": "{{ trackingUrl }}"}, "sample", id="does-not-render-its-sample-J3"),
        pytest.param({"title": "Kargoda", "body": "{% if %}"}, "body", id="syntax"),
        pytest.param({"title": "Kargoda"}, "body", id="a-field-is-missing"),
        pytest.param({**PARTS, "subject": "?"}, "subject", id="a-field-too-many"),
        pytest.param({**PARTS, "body": "{{ ''|attr('format') }}"}, "body", id="escape-J1"),
    ],
)
async def test_what_cannot_be_used_stays_a_draft_that_says_why(
    ingest: Ingest, parts: dict[str, str], part: str
) -> None:
    drafted = await draft(ingest, parts)
    assert (drafted.status_code, [error["part"] for error in drafted.json()["errors"]]) == (201, [part])

    refused = await publish(ingest, 2)

    assert (refused.status_code, refused.json()["code"]) == (422, "template_unpublishable")
    assert [error["path"] for error in refused.json()["errors"]] == [part]
    assert await active(ingest) == 1


async def test_a_parameter_that_the_type_does_not_declare(ingest: Ingest) -> None:
    schema = {"type": "object", "properties": {"orderNo": {"type": "string"}}, "additionalProperties": False}
    await ingest.pool.execute(
        "UPDATE ulak.notification_types SET parameter_schema = $1 WHERE type = 'ORDER_SHIPPED'", schema
    )
    drafted = await draft(ingest, {"title": "{{ carrier|default('') }} {{ carrier }}", "body": "{{ orderNo }}"})
    errors = drafted.json()["errors"]
    assert errors[0]["message"] == "carrier is not declared by ORDER_SHIPPED: no request may bring it"


async def test_there_is_nothing_before_the_first(ingest: Ingest) -> None:
    refused = await ingest.client.post(f"{PUSH}/rollback", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_roll_back")
    await draft(ingest)
    never = await ingest.client.post(f"{PUSH}/rollback", json={"version": 2})
    assert never.status_code == 404, "a draft was never in use"


async def test_preview(ingest: Ingest) -> None:
    await draft(ingest)
    url = f"{PUSH}/versions/2/preview"
    assert (await ingest.client.post(url, json={})).json() == {
        "content": {"title": "Kargoda", "body": "98213 yola çıktı"},
        "errors": [],
        "warnings": [],
    }
    given = await ingest.client.post(url, json={"params": {"orderNo": "{{ 7*7 }}"}})
    assert given.json()["content"]["body"] == "{{ 7*7 }} yola çıktı", "J1"
    missing = await ingest.client.post(url, json={"params": {}})
    assert (missing.status_code, missing.json()["code"]) == (422, "template_unpublishable")

    sms = await ingest.client.post(f"{PATH}/OTP/SMS/tr/versions/1/preview", json={"params": {"code": "482913"}})
    assert sms.json()["sms"] == {"encoding": "GSM7", "segments": 1, "left": 146, "worst": None, "worstLeft": None}


async def test_a_preview_tells_what_the_check_finds_by_the_type_as_it_is_now(ingest: Ingest) -> None:
    schema = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^[0-9]{6}$", "maxLength": 6}}}
    await ingest.pool.execute(
        "UPDATE ulak.notification_types SET parameter_schema = $1, sample = $2 WHERE type = 'OTP'",
        schema,
        {"code": "482913"},
    )

    seen = (await ingest.client.post(f"{PATH}/OTP/SMS/tr/versions/1/preview", json={"params": {"code": "1"}})).json()

    text = seen["content"]["text"]
    assert seen["sms"] == {
        "encoding": "GSM7",
        "segments": 1,
        "left": 160 - len(text),
        "worst": 1,
        "worstLeft": 160 - len(text) - 5,
    }, "of the code that was given, and of the longest one"
    assert [(warning["part"], warning["message"].split(":")[0]) for warning in seen["warnings"]] == [
        ("parameters", "code is not required by OTP")
    ]


async def test_marketing_is_checked_by_the_countrys_profile(ingest: Ingest) -> None:
    """The default is Turkey's."""
    await ingest.pool.execute(
        "UPDATE ulak.notification_types SET category = 'MARKETING', sample = $1 WHERE type = 'OTP'", {"code": "482913"}
    )
    seen = (await ingest.client.post(f"{PATH}/OTP/SMS/tr/versions/1/preview", json={"params": {"code": "1"}})).json()
    assert [error["part"] for error in seen["errors"]] == ["marketing", "marketing"]


async def test_the_difference_of_two_versions(ingest: Ingest) -> None:
    await draft(ingest, {"title": "Kargoda", "body": "{{ orderNo }} yolda!"})
    answer = await ingest.client.get(f"{PUSH}/diff?from=1&to=2")
    lines = [line for line in answer.json()["diff"] if line[:1] in "+-"]
    assert lines == ["-  body: '{{ orderNo }} yolda'", "+  body: '{{ orderNo }} yolda!'"]


async def test_lists_in_pages_and_by_filter(ingest: Ingest) -> None:
    await draft(ingest)
    found: list[tuple[str, str, str, int]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await ingest.client.get(f"{PATH}?limit=3{f'&cursor={cursor}' if cursor else ''}")).json()
        found += [(item["type"], item["channel"], item["locale"], item["version"]) for item in page["items"]]
        cursor = page["cursor"]
    assert found == sorted(found)
    assert len(found) == 7
    drafts = (await ingest.client.get(f"{PATH}?state=draft")).json()["items"]
    assert [item["version"] for item in drafts] == [2]


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        pytest.param({"type": "NOTHING"}, "type", id="type"),
        pytest.param({"channel": "PIGEON"}, "channel", id="channel"),
        pytest.param({"locale": "türkçe"}, "locale", id="locale"),
        pytest.param({"parts": {}}, "parts", id="no-parts"),
    ],
)
async def test_a_wrong_draft_names_its_field(ingest: Ingest, changed: dict[str, Any], path: str) -> None:
    refused = await draft(ingest, **{"parts": PARTS, **changed})
    assert refused.status_code == 422
    assert [error["path"] for error in refused.json()["errors"]] == [path]


async def test_two_who_publish_at_once_leave_one_active(ingest: Ingest) -> None:
    for title in ("a", "b", "c"):
        await draft(ingest, PARTS | {"title": title})
    await asyncio.gather(*(publish(ingest, version) for version in (2, 3, 4)))
    count = await ingest.pool.fetchval(
        "SELECT count(*) FROM ulak.templates WHERE type = 'ORDER_SHIPPED' AND channel = 'PUSH' AND active"
    )
    assert count == 1


class TestSending:
    """Through the ledger, marked, and with all that protects people left to the worker."""

    async def user(self, ingest: Ingest, **body: Any) -> None:
        await ingest.client.put("/internal/v1/recipients/7", json={"email": "ayse@example.com", **body})

    async def send(self, ingest: Ingest, channel: str = "EMAIL", **body: Any) -> httpx.Response:
        url = f"{PATH}/ORDER_SHIPPED/{channel}/tr/versions/1/test-send"
        params = {"orderNo": "98213", "carrier": "Kargo A", "trackingUrl": "https://kargo.example/1"}
        return await ingest.client.post(url, json={"userId": 7, "params": params, **body})

    async def test_it_is_a_decided_notification_with_its_hint(self, ingest: Ingest, key_ring: KeyRing) -> None:
        await self.user(ingest)

        sent = await self.send(ingest)

        assert sent.status_code == 202
        told = (await ingest.client.get(f"/internal/v1/notifications/{sent.json()['notificationId']}")).json()
        assert (told["state"], told["userId"], told["type"]) == ("DECIDED", "7", "ORDER_SHIPPED")
        assert [(d["channel"], d["target"], d["status"]) for d in told["deliveries"]] == [
            ("EMAIL", "a***@example.com", "PENDING")
        ]
        row = await ingest.pool.fetchrow("SELECT notification_id, sealed, purpose FROM ulak.contents")
        assert row is not None
        content = orjson.loads(open_sealed(key_ring, Purpose.CONTENT, row[0].bytes + b"EMAIL", row["sealed"]))
        assert content["subject"] == "[test] Siparişiniz 98213"
        hints = await ingest.pool.fetch("SELECT topic FROM ulak.outbox")
        assert [hint["topic"] for hint in hints] == ["email-tx"]
        assert ("test_sent", "template", "ORDER_SHIPPED EMAIL tr v1") in await audited(ingest.pool)

    async def test_marketing_is_left_to_the_workers_question_of_consent(self, ingest: Ingest) -> None:
        await self.user(ingest)
        await ingest.pool.execute("UPDATE ulak.notification_types SET category = 'MARKETING'")

        assert (await self.send(ingest)).status_code == 202

        row = await ingest.pool.fetchrow("SELECT marketing, send_until FROM ulak.deliveries")
        assert row is not None
        assert row["marketing"]
        assert row["send_until"] is not None, "nor is it sent at night"

    async def worked(self, ingest: Ingest, key_ring: KeyRing, lane: str) -> ScriptedSender:
        """What a worker of the lane hands over of the hints that wait."""
        rows = await ingest.pool.fetch("SELECT payload FROM ulak.outbox WHERE topic = $1", lane)
        world = make_world(lane, ingest.pool, key_ring, sender=ScriptedSender(provider="smtp"))
        hints = [decode(DeliveryHint, row["payload"]) for row in rows]
        await world.work(
            *(Seeded(DeliveryKey(hint.notification_id, hint.channel, hint.target_key), hint) for hint in hints)
        )
        return world.sender

    async def test_a_worker_sends_it_marked_with_what_the_recipient_would_read(
        self, ingest: Ingest, key_ring: KeyRing
    ) -> None:
        await self.user(ingest, timeZone="America/New_York")
        drafted = await draft(ingest, {"subject": "A", "text": "{{ at|time('short') }}"}, channel="EMAIL")
        url = f"{PATH}/ORDER_SHIPPED/EMAIL/tr/versions/{drafted.json()['version']}/test-send"
        await ingest.client.post(url, json={"userId": 7, "params": {"at": "2026-11-11T15:00:00Z"}})

        (message,) = (await self.worked(ingest, key_ring, "email-tx")).sent

        assert (message.address, message.content["subject"]) == ("ayse@example.com", "[test] A")
        assert message.content["text"] == "10:00", "by the recipient's own clock"

    async def test_no_worker_sends_marketing_without_consent(self, ingest: Ingest, key_ring: KeyRing) -> None:
        await self.user(ingest)
        await ingest.pool.execute("UPDATE ulak.notification_types SET category = 'MARKETING', message_class = 2")
        await self.send(ingest)
        await ingest.pool.execute("UPDATE ulak.deliveries SET send_until = NULL")  # whatever the hour

        assert (await self.worked(ingest, key_ring, "email-bulk")).sent == []

        row = await ingest.pool.fetchrow("SELECT status, reason FROM ulak.deliveries")
        assert row is not None
        assert tuple(row) == ("SKIPPED", "no_consent")

    async def test_an_inbox_is_looked_at_and_not_sent_to(self, ingest: Ingest) -> None:
        await self.user(ingest)
        await draft(ingest, channel="INBOX")
        refused = await self.send(ingest, "INBOX")
        assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "channel")
        assert "preview" in refused.json()["detail"]

    @pytest.mark.parametrize(
        ("channel", "body", "status", "code"),
        [
            pytest.param("EMAIL", {"userId": "nobody"}, 422, "unreachable", id="unknown-user"),
            pytest.param("PUSH", {}, 422, "unreachable", id="no-device"),
            pytest.param("EMAIL", {"params": {}}, 422, "template_unpublishable", id="does-not-render"),
            pytest.param("SMS", {}, 404, "not_found", id="no-such-version"),
        ],
    )
    async def test_what_cannot_be_sent(
        self, ingest: Ingest, channel: str, body: dict[str, Any], status: int, code: str
    ) -> None:
        await self.user(ingest)
        refused = await self.send(ingest, channel, **body)
        assert (refused.status_code, refused.json()["code"]) == (status, code)
        assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 0
