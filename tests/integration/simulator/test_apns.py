import asyncio
import json
import uuid

import httpx
import pytest
from aioapns import APNs, NotificationRequest

from tests.integration.simulator.simulation import TOKEN, TOPIC, Simulation, hang_up


async def test_push_arrives_with_what_it_carried(simulation: Simulation) -> None:
    message_id = str(uuid.uuid4())
    payload = {"aps": {"alert": {"title": "Siparişiniz kargoda", "body": "Kargo A"}}, "n": "1"}
    async with simulation.http2() as client:
        response = await simulation.push_apns(client, payload=payload, headers={"apns-id": message_id})
    assert (response.status_code, response.headers["apns-id"], response.content) == (200, message_id, b"")
    assert response.http_version == "HTTP/2"
    entry = await simulation.only(provider="apns", reference=message_id)
    assert entry["to"] == TOKEN
    assert entry["accepted"] is True
    assert entry["providerMessageId"] == message_id
    assert entry["content"]["payload"] == payload
    assert entry["content"]["headers"]["apns-topic"] == TOPIC
    assert entry["content"]["problems"] == []


async def test_apns_makes_an_id_where_none_is_given(simulation: Simulation) -> None:
    async with simulation.http2() as client:
        response = await simulation.push_apns(client)
    assert str(uuid.UUID(response.headers["apns-id"])).upper() == response.headers["apns-id"]


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        pytest.param({"headers": {"authorization": ""}}, 403, "MissingProviderToken", id="no-token"),
        pytest.param({"jwt_text": "a.b.c"}, 403, "InvalidProviderToken", id="not-a-jwt"),
        pytest.param({"headers": {"apns-topic": ""}}, 400, "MissingTopic", id="no-topic"),
        pytest.param({"token": "xyz"}, 400, "BadDeviceToken", id="token-not-hex"),
        pytest.param({"headers": {"apns-collapse-id": "x" * 65}}, 400, "BadCollapseId", id="collapse-65-bytes-P7"),
        pytest.param({"payload": b"x" * 4097}, 413, "PayloadTooLarge", id="payload-4097-bytes-P7"),
        pytest.param({"token": "feed0429" + "00" * 28}, 429, "TooManyRequests", id="token-throttled"),
    ],
)
async def test_refusals(simulation: Simulation, change: dict[str, object], status: int, reason: str) -> None:
    async with simulation.http2() as client:
        response = await simulation.push_apns(client, **change)  # type: ignore[arg-type] # the table's own keys
    assert (response.status_code, response.json()) == (status, {"reason": reason})
    entry = await simulation.only(provider="apns")
    assert (entry["accepted"], entry["status"], entry["error"]) == (False, status, reason)


async def test_token_gone_says_since_when(simulation: Simulation) -> None:
    async with simulation.http2() as client:
        response = await simulation.push_apns(client, token="deadbeef" + "00" * 28)
    assert response.status_code == 410
    assert response.json()["reason"] == "Unregistered"
    assert response.json()["timestamp"] > 1_700_000_000_000


@pytest.mark.parametrize(
    ("age_sec", "claims", "reason"),
    [
        pytest.param(3590, {}, None, id="nearly-an-hour-old"),
        pytest.param(3610, {}, "ExpiredProviderToken", id="older-than-an-hour-P4"),
        pytest.param(0, {"iss": "OTHERTEAM1"}, "InvalidProviderToken", id="another-team"),
        pytest.param(-600, {}, "InvalidProviderToken", id="from-the-future"),
    ],
)
async def test_provider_token(
    simulation: Simulation, age_sec: int, claims: dict[str, object], reason: str | None
) -> None:
    async with simulation.http2() as client:
        response = await simulation.push_apns(client, jwt_text=simulation.provider_token(age_sec=age_sec, **claims))
    assert (response.json()["reason"] if response.content else None) == reason


async def test_a_second_token_on_one_connection_within_20_minutes_is_too_many_P4(simulation: Simulation) -> None:
    first, second = simulation.provider_token(age_sec=60), simulation.provider_token()
    async with simulation.http2() as client, simulation.http2() as other:
        assert (await simulation.push_apns(client, jwt_text=first)).status_code == 200
        refused = await simulation.push_apns(client, jwt_text=second)
        assert (refused.status_code, refused.json()["reason"]) == (429, "TooManyProviderTokenUpdates")
        assert (await simulation.push_apns(other, jwt_text=second)).status_code == 200


async def test_a_token_renewed_after_its_hour_is_taken_P4(simulation: Simulation) -> None:
    async with simulation.http2() as client:
        expired = await simulation.push_apns(client, jwt_text=simulation.provider_token(age_sec=3700))
        renewed = await simulation.push_apns(client, jwt_text=simulation.provider_token())
    assert (expired.status_code, renewed.status_code) == (403, 200)


async def test_aioapns_is_served(simulation: Simulation) -> None:
    host, _, port = str(simulation.endpoints["apns"]).removeprefix("https://").partition(":")
    apns = APNs(
        key=simulation.apns_key,
        key_id=simulation.endpoints["apnsKeyId"],
        team_id=simulation.endpoints["apnsTeamId"],
        topic=TOPIC,
        max_connections=1,
        ssl_context=simulation.tls,
    )
    protocol = apns.pool.protocol_class
    apns.pool.protocol_class = type("Simulated", (protocol,), {"APNS_SERVER": host, "APNS_PORT": int(port)})
    result = await apns.send_notification(
        NotificationRequest(device_token=TOKEN, message={"aps": {"alert": "Merhaba"}})
    )
    assert result.is_successful
    assert (await simulation.only(provider="apns"))["providerMessageId"] == result.notification_id
    for connection in apns.pool.connections:
        await hang_up(connection.transport)


async def test_hundreds_of_streams_on_one_connection(simulation: Simulation) -> None:
    token = simulation.provider_token()
    async with simulation.http2() as client:
        responses = await asyncio.gather(
            *(simulation.push_apns(client, token=f"{number:064x}", jwt_text=token) for number in range(300))
        )
    assert {response.status_code for response in responses} == {200}
    entries = await simulation.messages(provider="apns", limit=1000)
    assert sorted(entry["to"] for entry in entries) == [f"{number:064x}" for number in range(300)]
    assert [entry["seq"] for entry in entries] == sorted(entry["seq"] for entry in entries)


async def test_programmed_429_carries_retry_after(simulation: Simulation) -> None:
    await simulation.program("apns", {"status": 429, "headers": {"Retry-After": "7"}}, times=1)
    async with simulation.http2() as client:
        token = simulation.provider_token()
        refused = await simulation.push_apns(client, jwt_text=token)
        taken = await simulation.push_apns(client, jwt_text=token)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
    assert refused.json() == {"reason": "TooManyRequests"}
    assert taken.status_code == 200


@pytest.mark.parametrize(
    ("drop", "accepted", "status"),
    [
        pytest.param("beforeRead", False, None, id="before-read"),
        pytest.param("afterAccept", True, None, id="after-accept"),
        pytest.param("midReply", True, 200, id="mid-reply"),
    ],
)
async def test_dropped_connection(simulation: Simulation, drop: str, accepted: bool, status: int | None) -> None:
    await simulation.program("apns", {"drop": drop}, times=1)
    async with simulation.http2() as client:
        with pytest.raises(httpx.TransportError):
            await simulation.push_apns(client)
    entry = await simulation.only(provider="apns")
    assert (entry["accepted"], entry["status"]) == (accepted, status)


async def test_reset_stream_leaves_the_connection(simulation: Simulation) -> None:
    await simulation.program("apns", {"http2": {"resetStream": 7}}, times=1)
    async with simulation.http2() as client:
        token = simulation.provider_token()
        with pytest.raises(httpx.RemoteProtocolError):
            await simulation.push_apns(client, jwt_text=token)
        assert (await simulation.push_apns(client, jwt_text=token)).status_code == 200
    assert [entry["accepted"] for entry in await simulation.messages(provider="apns")] == [False, True]


async def test_a_late_answer_finds_the_message_accepted(simulation: Simulation) -> None:
    await simulation.program("apns", {"delayMs": 3_600_000})
    async with simulation.http2() as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post(
                f"{simulation.endpoints['apns']}/3/device/{TOKEN}",
                content=json.dumps({"aps": {}}),
                headers={"authorization": f"bearer {simulation.provider_token()}", "apns-topic": TOPIC},
                timeout=0.3,
            )
    assert (await simulation.only(provider="apns"))["accepted"] is True
