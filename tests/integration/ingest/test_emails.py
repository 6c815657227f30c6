"""`POST /internal/v1/emails` on real servers: durable when answered, once per key, in either model."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import orjson
import pytest

from services.ingest.settings import IngestSettings
from shared.core.address import target_key
from shared.core.consent import Line, Source
from shared.core.email import recipients_from_json
from shared.core.identifier import EMAIL, NOTIFICATION, new_id, parse_public_id, public_id
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.audit import audit
from shared.postgres.consent import append
from shared.wire.topic import TopicSpec, declared_topics
from tests.integration.ingest.conftest import Ingest, add_key, running, until
from tests.integration.ingest.test_commands import environment_of, run
from tests.integration.plain_http import plain_client

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

PATH = "/internal/v1/emails"
MAIL: dict[str, Any] = {
    "to": ["Ayşe <ayse@example.com>"],
    "cc": ["b@example.com"],
    "template": "ORDER_SHIPPED",
    "parameters": {"orderNo": "98213", "carrier": "Kargo A", "trackingUrl": "https://kargo.example/98213"},
}


def mail(**changes: Any) -> dict[str, Any]:
    return {**MAIL, **changes}


@pytest.fixture
async def model_a(
    database: str, pool: asyncpg.Pool, kafka_settings: KafkaSettings, key_ring: KeyRing, catalogue: None
) -> AsyncIterator[Ingest]:
    """An installation that sends from its table unless told otherwise."""
    settings = IngestSettings(key_ttl_sec=0.2, email_model="A")
    secret = await add_key(pool)
    async with (
        running(database, kafka_settings, key_ring, ingest=settings) as (url, health_url),
        plain_client(base_url=url, headers={"authorization": f"Bearer {secret}"}, timeout=20) as client,
    ):
        yield Ingest(url, health_url, client, pool, kafka_settings)


async def audited(pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection:
        assert (await audit(connection, datetime.now(UTC))).clean


async def test_model_b_is_in_the_ledger_when_it_is_answered(ingest: Ingest) -> None:
    answer = await ingest.post(PATH, mail())

    assert answer.status_code == 202
    id_ = parse_public_id(EMAIL, answer.json()["emailId"])
    assert answer.json() == {"emailId": public_id(EMAIL, id_), "notificationId": public_id(NOTIFICATION, id_)}
    row = await ingest.pool.fetchrow("SELECT * FROM ulak.notifications WHERE id = $1", id_)
    assert row is not None
    assert (row["state"], row["event_id"], row["message_class"]) == ("DECIDED", answer.json()["emailId"], 1)
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.deliveries WHERE notification_id = $1", id_) == 2
    assert await ingest.pool.fetchval("SELECT source FROM ulak.email_intakes WHERE notification_id = $1", id_) == ""
    await audited(ingest.pool)


async def test_the_hint_is_published_at_once_and_its_outbox_row_goes(
    database: str, pool: asyncpg.Pool, kafka_settings: KafkaSettings, key_ring: KeyRing, catalogue: None
) -> None:
    topics = [TopicSpec(spec.name, 1, spec.retention_ms) for spec in declared_topics() if spec.name == "email-tx"]
    await apply(kafka_settings, topics)
    secret = await add_key(pool)
    async with (
        running(database, kafka_settings, key_ring) as (url, _),
        plain_client(base_url=url, headers={"authorization": f"Bearer {secret}"}, timeout=20) as client,
    ):
        assert (await client.post(PATH, json=mail())).status_code == 202

        async def gone() -> bool:
            return bool(await pool.fetchval("SELECT count(*) = 0 FROM ulak.outbox"))

        await until(gone)


async def test_model_a_is_a_row_sealed_from_the_first(model_a: Ingest, key_ring: KeyRing) -> None:
    file = {"filename": "a.pdf", "contentType": "application/pdf", "storageRef": "file:a.pdf"}
    answer = await model_a.post(PATH, mail(priority="low", expiresInSeconds=600, attachments=[file], userId=7))

    assert answer.status_code == 202
    assert list(answer.json()) == ["emailId"]
    id_ = parse_public_id(EMAIL, answer.json()["emailId"])
    row = await model_a.pool.fetchrow("SELECT * FROM ulak.email_messages WHERE id = $1", id_)
    assert row is not None
    assert (row["model"], row["status"], row["message_class"], row["user_id"]) == ("A", "PENDING", 3, "7")
    assert row["attachments"] == [file]
    assert row["expires_at"] - row["created_at"] == timedelta(seconds=600)
    assert row["sealed"]
    recipients = open_sealed(key_ring, Purpose.OUTBOX, id_.bytes + b"recipients", row["recipients"])
    assert [str(each.mailbox) for each in recipients_from_json(recipients)] == [
        '"Ayşe" <ayse@example.com>',
        "b@example.com",
    ]
    parameters = open_sealed(key_ring, Purpose.OUTBOX, id_.bytes + b"parameters", row["parameters"])
    assert orjson.loads(parameters) == MAIL["parameters"]
    await audited(model_a.pool)


async def test_the_model_can_be_chosen_per_message(model_a: Ingest) -> None:
    assert "notificationId" in (await model_a.post(PATH, mail(model="B"))).json()
    assert "notificationId" not in (await model_a.post(PATH, mail(model="A"))).json()


@pytest.mark.parametrize("kind", ["test", "team"])
async def test_a_key_that_is_not_live_never_reaches_the_table(model_a: Ingest, kind: str) -> None:
    secret = await add_key(model_a.pool, kind=kind)

    answer = await model_a.post(PATH, mail(model="A"), headers={"authorization": f"Bearer {secret}"})

    id_ = parse_public_id(EMAIL, answer.json()["emailId"])
    assert await model_a.pool.fetchval("SELECT count(*) FROM ulak.email_messages") == 0
    assert {row["mode"] for row in await _deliveries(model_a.pool, id_)} == {kind}


async def _deliveries(pool: asyncpg.Pool, id_: Any) -> list[asyncpg.Record]:
    return await pool.fetch("SELECT * FROM ulak.deliveries WHERE notification_id = $1", id_)


@pytest.mark.parametrize("model", ["A", "B"])
async def test_one_key_is_one_mail(ingest: Ingest, model: str) -> None:
    first = await ingest.post(PATH, mail(idempotencyKey="order-7", model=model))
    again = await ingest.post(PATH, mail(idempotencyKey="order-7", model=model))
    by_the_other_model = await ingest.post(PATH, mail(idempotencyKey="order-7", model="B" if model == "A" else "A"))
    another = await ingest.post(PATH, mail(idempotencyKey="order-7", model=model, to=["c@example.com"]))
    stranger = await add_key(ingest.pool, application="other")
    of_another = await ingest.post(
        PATH, mail(idempotencyKey="order-7", model=model), headers={"authorization": f"Bearer {stranger}"}
    )
    unkeyed = [await ingest.post(PATH, mail(model=model)) for _ in range(2)]

    assert (first.status_code, again.status_code, by_the_other_model.status_code) == (202, 200, 200)
    assert first.json() == again.json() == by_the_other_model.json()
    assert (another.status_code, another.json()["code"]) == (409, "idempotency_conflict")
    assert first.json()["emailId"] in another.json()["detail"]
    assert [answer.status_code for answer in (of_another, *unkeyed)] == [202, 202, 202]
    assert len({answer.json()["emailId"] for answer in (first, of_another, *unkeyed)}) == 4
    await audited(ingest.pool)


@pytest.mark.parametrize("model", ["A", "B"])
async def test_the_same_key_by_many_at_once_is_one_mail(ingest: Ingest, model: str) -> None:
    answers = await asyncio.gather(
        *(ingest.post(PATH, mail(idempotencyKey="k", model=model)) for _ in range(20)),
        *(ingest.post(PATH, mail(model=model)) for _ in range(20)),
    )

    keyed, unkeyed = answers[:20], answers[20:]
    assert sorted(answer.status_code for answer in keyed) == [*[200] * 19, 202]
    assert len({answer.json()["emailId"] for answer in keyed}) == 1
    assert [answer.status_code for answer in unkeyed] == [202] * 20
    await audited(ingest.pool)


async def test_what_is_wrong_is_named_by_its_path(ingest: Ingest) -> None:
    await ingest.pool.execute(
        "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
        "VALUES ('SALE', 'MARKETING', 2, '{EMAIL}', 60)"
    )

    async def refused(**changes: Any) -> tuple[int, str, list[str]]:
        answer = await ingest.post(PATH, mail(**changes))
        return answer.status_code, answer.json()["code"], [each["path"] for each in answer.json().get("errors", [])]

    assert await refused(to=["ayse@example.com", "b"]) == (422, "invalid_address", ["to.1"])
    assert await refused(parameters={"orderNo": 1}) == (
        *(422, "template_parameters_missing"),
        ["parameters.carrier", "parameters.trackingUrl"],
    )
    assert await refused(to=[]) == (422, "invalid_request", ["to"])
    assert await refused(subject="x") == (422, "invalid_request", ["subject"])
    assert await refused(model="C") == (422, "invalid_request", ["model"])
    for model in ("A", "B"):
        alone = {"to": ["ayse@example.com"], "cc": [], "bcc": []}
        assert await refused(type="SALE", model=model, **alone) == (422, "marketing_refused", ["type"])
        assert await refused(type="SALE", model=model) == (422, "marketing_to_several", ["to"])
    assert await ingest.pool.fetchval("SELECT count(*) FROM ulak.notification_dedup") == 0


@pytest.mark.parametrize("model", ["A", "B"])
async def test_marketing_is_taken_for_who_consented(ingest: Ingest, key_ring: KeyRing, model: str) -> None:
    await ingest.pool.execute(
        "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
        "VALUES ('SALE', 'MARKETING', 2, '{EMAIL}', 60)"
    )
    key = target_key(key_ring, "EMAIL", "ayse@example.com")
    line = Line(new_id(), key, "EMAIL", granted=True, at=datetime.now(UTC), source=Source.HS_WEB)
    async with ingest.pool.acquire() as connection, connection.transaction():
        await append(connection, key_ring, [line])
    answer = await ingest.post(PATH, mail(type="SALE", model=model, to=["ayse@example.com"], cc=[], bcc=[]))
    assert answer.status_code == 202, answer.text
    if model == "B":
        [row] = await ingest.pool.fetch("SELECT target_key, status, reason, marketing FROM ulak.deliveries")
        assert tuple(row) == (key, "PENDING", None, True)
    await audited(ingest.pool)


async def test_a_key_without_the_scope_is_turned_away(ingest: Ingest) -> None:
    secret = await add_key(ingest.pool, scopes=("otp",))
    answer = await ingest.post(PATH, mail(), headers={"authorization": f"Bearer {secret}"})
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_where_a_mail_of_model_b_stands(ingest: Ingest, key_ring: KeyRing) -> None:
    id_ = (await ingest.post(PATH, mail(bcc=["c@example.com"]))).json()["emailId"]
    waiting = (await ingest.client.get(f"{PATH}/{id_}")).json()
    assert (waiting["model"], waiting["status"], waiting["attempts"]) == ("B", "PENDING", 0)
    assert waiting["recipients"] == [
        {"field": "to", "address": "a***@example.com", "status": "PENDING"},
        {"field": "cc", "address": "b***@example.com", "status": "PENDING"},
        {"field": "bcc", "address": "c***@example.com", "status": "PENDING"},
    ]

    b = target_key(key_ring, "EMAIL", "b@example.com")
    await ingest.pool.execute("UPDATE ulak.deliveries SET status = 'SENT', attempt = 1")
    await ingest.pool.execute(
        "UPDATE ulak.deliveries SET status = 'FAILED', reason = 'target_gone' WHERE target_key = $1", b
    )
    over = (await ingest.client.get(f"{PATH}/{id_}")).json()
    assert (over["status"], over["attempts"]) == ("FAILED", 1)
    assert [each["status"] for each in over["recipients"]] == ["SENT", "FAILED", "SENT"]
    assert over["recipients"][1]["reason"] == "target_gone"

    await ingest.pool.execute("UPDATE ulak.contents SET sealed = NULL")  # as it is once nobody is sent it again
    cleared = (await ingest.client.get(f"{PATH}/{id_}")).json()["recipients"]
    assert {each["address"] for each in cleared} == {"a***@example.com", "b***@example.com", "c***@example.com"}


async def test_where_a_mail_of_model_a_stands(model_a: Ingest) -> None:
    id_ = (await model_a.post(PATH, mail())).json()["emailId"]
    waiting = (await model_a.client.get(f"{PATH}/{id_}")).json()
    assert (waiting["model"], waiting["status"], waiting["template"]) == ("A", "PENDING", "ORDER_SHIPPED")
    assert [each["status"] for each in waiting["recipients"]] == ["PENDING", "PENDING"]

    await model_a.pool.execute(
        "UPDATE ulak.email_messages SET status = 'FAILED', attempt_count = 2, provider = 'smtp', outcomes = $1, "
        "error_message = 'target_gone: 1 of 2 recipients refused: 550 no such user'",
        {"0": "SENT", "1": "FAILED target_gone: 550 no such user"},
    )
    over = (await model_a.client.get(f"{PATH}/{id_}")).json()
    assert (over["status"], over["attempts"]) == ("FAILED", 2)
    assert over["recipients"] == [
        {"field": "to", "address": "a***@example.com", "status": "SENT"},
        {"field": "cc", "address": "b***@example.com", "status": "FAILED", "reason": "target_gone"},
    ]


async def test_what_is_ours_to_mend_is_told_with_its_cause(model_a: Ingest) -> None:
    """A provider's own words stay with operators."""
    cause = "EMAIL tr v3: parameters missing: orderNo"
    by_table = (await model_a.post(PATH, mail(model="A"))).json()["emailId"]
    by_ledger = (await model_a.post(PATH, mail(model="B"))).json()["emailId"]
    refused = (await model_a.post(PATH, mail(model="B"))).json()["emailId"]
    await model_a.pool.execute(
        "UPDATE ulak.email_messages SET status = 'FAILED', error_message = $1", f"render: {cause}"
    )
    for id_, reason, error in ((by_ledger, "render", cause), (refused, "permanent", "550 5.7.1 no")):
        await model_a.pool.execute(
            "UPDATE ulak.deliveries SET status = 'FAILED', reason = $2, last_error = $3 WHERE notification_id = $1",
            parse_public_id(EMAIL, id_),
            reason,
            error,
        )

    for id_ in (by_table, by_ledger):
        told = (await model_a.client.get(f"{PATH}/{id_}")).json()
        assert [(each["reason"], each["detail"]) for each in told["recipients"]] == [("render", cause)] * 2
        why = (await model_a.client.get(f"{PATH}/{id_}/explain")).json()
        [step, *_] = [step["text"] for step in why["steps"] if step.get("reason") == "render"]
        assert cause in step
        assert "ulak templates push" in step
    told = (await model_a.client.get(f"{PATH}/{refused}")).json()
    assert [list(each) for each in told["recipients"]] == [["field", "address", "status", "reason"]] * 2
    notification = told["notificationId"]
    assert "550" not in (await model_a.client.get(f"/internal/v1/notifications/{notification}")).text


async def test_nobody_reads_another_application_s_mails(model_a: Ingest) -> None:
    stranger = await add_key(model_a.pool, application="other", scopes=("notifications",))
    headers = {"authorization": f"Bearer {stranger}"}
    for model in ("A", "B"):
        id_ = (await model_a.post(PATH, mail(model=model))).json()["emailId"]
        answer = await model_a.client.get(f"{PATH}/{id_}", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "email_not_found")
    unknown = await model_a.client.get(f"{PATH}/{public_id(EMAIL, new_id())}")
    assert unknown.status_code == 404
    assert (await model_a.client.get(f"{PATH}/ntf_01kbapv8a4fevs0dqf3qx5kpkx")).status_code == 422


async def test_why_tells_a_mail_s_story_in_either_model(model_a: Ingest, database: str) -> None:
    environment = environment_of(model_a, database)
    by_table = (await model_a.post(PATH, mail())).json()["emailId"]
    by_ledger = (await model_a.post(PATH, mail(model="B"))).json()
    await model_a.pool.execute(
        "UPDATE ulak.email_messages SET attempt_count = 1, error_message = '451 try again later'"
    )

    table, ledger, by_row = await asyncio.gather(
        run(environment, "why", by_table),
        run(environment, "why", by_ledger["emailId"]),
        run(environment, "why", "--email", str(parse_public_id(EMAIL, by_ledger["emailId"]))),
    )

    assert "Accepted as ORDER_SHIPPED with template ORDER_SHIPPED, class tx." in " ".join(table.stdout.split())
    assert "after 1 attempt; the last met 451 try again later." in " ".join(table.stdout.split())
    assert by_ledger["notificationId"] in ledger.stdout
    assert "EMAIL to a***@example.com waits to be sent" in " ".join(ledger.stdout.split())
    assert by_row.stdout == ledger.stdout


async def test_why_asks_the_table_for_what_the_api_does_not_know(ingest: Ingest, database: str) -> None:
    """A row that the relay has not taken in yet."""
    row = await ingest.pool.fetchval("SELECT ulak.enqueue_email(ARRAY['a@example.com'], 'ORDER_SHIPPED', '{}')")
    assert (await ingest.client.get(f"{PATH}/{row}")).status_code == 404

    told = await run(environment_of(ingest, database), "why", public_id(EMAIL, row))

    assert "It waits until" in told.stdout
