"""The HTTP client against the real service, and against what lies between them when it misbehaves."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Literal

import httpx
import pytest
from ulak_client import Attachment, Email
from ulak_client.http import (
    Accepted,
    AsyncUlakClient,
    Cancelled,
    Notification,
    OneTimePassword,
    Recipient,
    RetryPolicy,
    TryLaterError,
    UlakClient,
    UlakError,
)

from tests.integration.client.listener import answer, losing, scripted, silent
from tests.integration.ingest.conftest import ORDER, Ingest, add_key

ACCEPTED = answer(202, '{"notificationId": "ntf_1"}')
BUSY = answer(503, '{"code": "temporarily_unavailable", "detail": "Send it again."}')
QUICK = RetryPolicy(base_sec=0.01)
COUNT = "SELECT count(*) FROM ulak.notifications"


def shipped(event_id: str = "order-98213-SHIPPED") -> Notification:
    return Notification(user_id=7, type="ORDER_SHIPPED", params=ORDER["params"], event_id=event_id)  # type: ignore[arg-type]


def code(request_id: str = "login-1") -> OneTimePassword:
    return OneTimePassword(phone="+905321234567", code="482913", expires_in=timedelta(minutes=3), request_id=request_id)


@pytest.fixture
async def api_key(ingest: Ingest) -> str:
    return await add_key(ingest.pool, application="shop")


@pytest.fixture
async def client(ingest: Ingest, api_key: str) -> AsyncIterator[AsyncUlakClient]:
    async with AsyncUlakClient(ingest.url, api_key) as opened:
        yield opened


@pytest.mark.postgres
async def test_a_notification_from_its_acceptance_to_its_end(client: AsyncUlakClient) -> None:
    first = await client.notify(shipped())
    assert first == Accepted(first.notification_id, repeated=False)
    assert await client.notify(shipped()) == Accepted(first.notification_id, repeated=True)
    found = await client.find("order-98213-SHIPPED", type_name="ORDER_SHIPPED")
    assert found == await client.get(first.notification_id)
    assert (found["notificationId"], found["state"]) == (first.notification_id, "ACCEPTED")
    assert (await client.explain(first.notification_id))["steps"]
    assert await client.cancel(first.notification_id) == Cancelled(cancelled=1, in_flight=0, already_out=0)
    with pytest.raises(UlakError) as refused:
        await client.cancel(first.notification_id)
    assert (refused.value.status, refused.value.code) == (409, "nothing_to_cancel")


@pytest.mark.postgres
async def test_the_blocking_client_makes_the_same_calls(ingest: Ingest, api_key: str) -> None:
    def calls() -> list[str]:
        with UlakClient(ingest.url, api_key) as client:
            accepted = client.notify(shipped())
            password = client.send_otp(code())
            (item,) = client.notify_batch([shipped("order-2")])
            assert item.accepted is not None
            return [
                accepted.notification_id,
                client.get(accepted.notification_id)["notificationId"],
                client.find("order-98213-SHIPPED")["notificationId"],
                client.explain(accepted.notification_id)["notificationId"],
                password.notification_id,
                client.get_otp("login-1")["notificationId"],
                item.accepted.notification_id,
                client.find("order-2")["notificationId"],
                str(client.cancel(accepted.notification_id).cancelled),
            ]

    found = await asyncio.to_thread(calls)
    assert len(set(found[:4])) == 1
    assert found[4] == found[5]
    assert found[6] == found[7]
    assert found[8] == "1"


@pytest.mark.postgres
@pytest.mark.parametrize("model", ["A", "B"])
async def test_an_email_in_either_model(model: Literal["A", "B"], ingest: Ingest, api_key: str) -> None:
    mail = Email(
        to=["Ayşe <ayse@example.com>"],
        cc=["can@example.com"],
        template="ORDER_SHIPPED",
        parameters=ORDER["params"],  # type: ignore[arg-type]
        attachments=[Attachment("R-7.pdf", "application/pdf", "file:R-7.pdf")],
        model=model,
    )
    async with losing(ingest.url, lost=1) as (url, line), AsyncUlakClient(url, api_key, retry=QUICK) as client:
        accepted = await client.send_email(mail)  # without a key: one is drawn before the first try
        assert [status.split()[1] for status in line.passed] == [b"202", b"200"]
        assert accepted.repeated
        assert (accepted.notification_id is None) is (model == "A")
        found = await client.get_email(accepted.email_id)
        assert (found["emailId"], found["model"], found["status"]) == (accepted.email_id, model, "PENDING")
        assert [entry["field"] for entry in found["recipients"]] == ["to", "cc"]
        assert (await client.explain_email(accepted.email_id))["emailId"] == accepted.email_id
        assert (await client.send_email(mail)).email_id != accepted.email_id
        first = await client.send_email(mail, idempotency_key="invoice R-7")
        assert (await client.send_email(mail, idempotency_key="invoice R-7")).email_id == first.email_id


@pytest.mark.postgres
async def test_a_one_time_password(client: AsyncUlakClient) -> None:
    accepted = await client.send_otp(code())
    assert await client.send_otp(code()) == Accepted(accepted.notification_id, repeated=True)
    assert (await client.get_otp("login-1"))["notificationId"] == accepted.notification_id


@pytest.mark.postgres
async def test_a_batch_has_a_result_for_each_item(client: AsyncUlakClient) -> None:
    unknown = Notification(user_id=7, type="NO_SUCH_TYPE", event_id="x")
    good, bad = await client.notify_batch([shipped(), unknown])
    assert good.accepted is not None
    assert good.accepted.notification_id == (await client.find(shipped().event_id))["notificationId"]
    assert bad.error is not None
    assert (bad.error.status, bad.error.code, bad.error.request_key) == (422, "unknown_type", "x")


@pytest.mark.postgres
async def test_a_refusal_names_its_fields(ingest: Ingest, client: AsyncUlakClient) -> None:
    with pytest.raises(UlakError) as refused:
        await client.notify(Notification(user_id=7, type="ORDER_SHIPPED", params={"orderNo": "1"}, event_id="e"))
    assert (refused.value.status, refused.value.code) == (422, "template_parameters_missing")
    assert "params.carrier" in {error.path for error in refused.value.errors}
    async with AsyncUlakClient(ingest.url, "ulak_live_none") as stranger:
        with pytest.raises(UlakError) as unknown:
            await stranger.notify(shipped())
    assert (unknown.value.status, unknown.value.code) == (401, "unauthenticated")


@pytest.mark.postgres
async def test_the_services_own_rate_limit_is_waited_for(ingest: Ingest) -> None:
    limited = await add_key(ingest.pool, application="limited", rate=1)
    async with AsyncUlakClient(ingest.url, limited) as client:
        answers = [await client.notify(shipped(f"order-{number}")) for number in range(3)]
    assert len({accepted.notification_id for accepted in answers}) == 3


@pytest.mark.postgres
async def test_answers_that_were_lost_after_accepting_make_one_notification(ingest: Ingest, api_key: str) -> None:
    async with losing(ingest.url, lost=2) as (url, line), AsyncUlakClient(url, api_key, retry=QUICK) as client:
        accepted = await client.notify(Notification(user_id=7, type="ORDER_SHIPPED", params=ORDER["params"]))  # type: ignore[arg-type]
        assert accepted.repeated
        assert [line.split()[1] for line in line.passed] == [b"202", b"200", b"200"]
        assert await ingest.pool.fetchval(COUNT) == 1
        await client.send_otp(code())
        assert await ingest.pool.fetchval(COUNT) == 2


@pytest.mark.postgres
async def test_a_lost_batch_is_sent_again_whole_and_makes_each_once(ingest: Ingest, api_key: str) -> None:
    def batch(url: str) -> list[bool]:
        items = [Notification(user_id=user, type="ORDER_SHIPPED", params=ORDER["params"]) for user in range(5)]  # type: ignore[arg-type]
        with UlakClient(url, api_key, retry=QUICK) as client:
            return [result.accepted is not None and result.accepted.repeated for result in client.notify_batch(items)]

    async with losing(ingest.url, lost=1) as (url, _):
        assert await asyncio.to_thread(batch, url) == [True] * 5
    assert await ingest.pool.fetchval(COUNT) == 5


@pytest.mark.parametrize(
    "refusal", [BUSY, answer(502, "<html>"), answer(504, ""), b""], ids=["503", "502", "504", "cut"]
)
async def test_what_says_not_now_is_tried_again_with_the_same_bytes(refusal: bytes) -> None:
    async with scripted(refusal, refusal, ACCEPTED) as (url, script), AsyncUlakClient(url, "k", retry=QUICK) as client:
        assert await client.notify(Notification(user_id=7, type="T")) == Accepted("ntf_1", repeated=False)
    assert len(script.bodies) == 3
    assert len(set(script.bodies)) == 1
    assert json.loads(script.bodies[0])["eventId"]


async def test_retry_after_is_honoured_in_seconds_and_as_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    asked = [answer(429, Retry_After="1"), answer(503, Retry_After=date)]
    async with scripted(*asked, ACCEPTED) as (url, script), AsyncUlakClient(url, "k", retry=QUICK) as client:
        await client.notify(shipped())
    first, second, third = script.times
    assert 1.0 <= second - first < 1.5
    assert third - first >= 1.0  # the date has whole seconds: 1 to 2 from the start
    assert len(set(script.bodies)) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 422, 500])
async def test_any_other_refusal_is_told_at_once(status: int) -> None:
    async with (
        scripted(answer(status, '{"code": "c", "detail": "d"}')) as (url, script),
        AsyncUlakClient(url, "k") as client,
    ):
        with pytest.raises(UlakError, match=f"{status} c: d") as refused:
            await client.notify(shipped())
    assert not isinstance(refused.value, TryLaterError)
    assert len(script.bodies) == 1


async def test_it_gives_up_after_its_tries_and_tells_the_id_to_come_again_with() -> None:
    policy = RetryPolicy(tries=3, base_sec=0.01)
    async with scripted(BUSY) as (url, script), AsyncUlakClient(url, "k", retry=policy) as client:
        with pytest.raises(TryLaterError) as refused:
            await client.notify(Notification(user_id=7, type="T"))
    assert len(script.bodies) == 3
    assert refused.value.request_key == json.loads(script.bodies[0])["eventId"]
    assert refused.value.code == "temporarily_unavailable"


async def test_a_wait_beyond_the_total_time_is_not_waited() -> None:
    async with scripted(answer(429, Retry_After="3600")) as (url, script), AsyncUlakClient(url, "k") as client:
        async with asyncio.timeout(60):
            with pytest.raises(TryLaterError) as refused:
                await client.notify(shipped())
    assert (refused.value.retry_after_sec, len(script.bodies)) == (3600.0, 1)


async def test_nobody_listening_and_nobody_answering_are_told_apart() -> None:
    policy = RetryPolicy(tries=2, base_sec=0.01)
    async with AsyncUlakClient("http://127.0.0.1:1", "k", retry=policy) as client:
        with pytest.raises(TryLaterError, match=r"no_answer: no answer \(ConnectError\)"):
            await client.notify(shipped())
    async with silent() as url, AsyncUlakClient(url, "k", retry=policy, timeout=httpx.Timeout(0.2)) as client:
        with pytest.raises(TryLaterError, match=r"no_answer: no answer \(ReadTimeout\)"):
            await client.notify(shipped())


async def test_calls_at_once_keep_their_own_tries() -> None:
    async with scripted(*[BUSY] * 60, ACCEPTED) as (url, script), AsyncUlakClient(url, "k", retry=QUICK) as client:
        answers = await asyncio.gather(*(client.notify(shipped(f"e-{number}")) for number in range(30)))
    assert len(answers) == 30
    tries: dict[str, int] = {}
    for body in script.bodies:
        id_ = json.loads(body)["eventId"]
        tries[id_] = tries.get(id_, 0) + 1
    assert len(tries) == 30
    assert max(tries.values()) <= QUICK.tries


async def test_nothing_logged_holds_a_recipient_a_code_or_the_key(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with scripted(BUSY, ACCEPTED) as (url, _), AsyncUlakClient(url, "ulak_secret", retry=QUICK) as client:
            await client.send_otp(code())
            who = Recipient(email="ayse@example.com", phone="+905321234567")
            await client.notify(Notification(user_id=7, type="T", recipient=who))
    assert caplog.records
    for secret in ("ayse", "5321234567", "482913", "ulak_secret"):
        assert secret not in caplog.text
