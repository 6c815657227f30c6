import time
from pathlib import Path
from typing import Any

import httpx
import jwt
import orjson
import pytest
from firebase_admin import credentials

from tests.integration.plain_http import plain_client
from tests.integration.simulator.simulation import Simulation, refreshed

MESSAGE = {
    "token": "fcm-token-1",
    "notification": {"title": "Siparişiniz kargoda", "body": "Kargo A"},
    "data": {"notificationId": "ntf-1"},
    "android": {"priority": "HIGH", "ttl": "3600s", "collapseKey": "order-98213"},
    "fcmOptions": {"analyticsLabel": "order-98213"},
}


async def test_message_arrives_with_what_it_carried(simulation: Simulation) -> None:
    token = await simulation.access_token()
    async with simulation.http2() as client:
        response = await simulation.push_fcm(client, token, {"message": MESSAGE})
    assert response.status_code == 200, response.text
    name = response.json()["name"]
    assert name.startswith(f"projects/{simulation.endpoints['fcmProject']}/messages/")
    entry = await simulation.only(provider="fcm", to="fcm-token-1")
    assert (entry["reference"], entry["providerMessageId"], entry["accepted"]) == ("order-98213", name, True)
    assert entry["content"]["message"]["android"]["collapse_key"] == "order-98213"


async def test_firebase_admin_fetches_a_token_with_the_service_account_file(simulation: Simulation) -> None:
    file = simulation.endpoints["fcmServiceAccountFile"]
    certificate = credentials.Certificate(file)  # type: ignore[no-untyped-call] # firebase-admin
    google: Any = certificate.get_credential()  # type: ignore[no-untyped-call] # firebase-admin
    await refreshed(google)
    assert google.token.startswith("ya29.")
    assert certificate.project_id == simulation.endpoints["fcmProject"]


def _error(response: httpx.Response) -> tuple[int, str, str | None]:
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] == response.status_code
    codes = [detail["errorCode"] for detail in error.get("details", []) if detail["@type"].endswith("v1.FcmError")]
    return response.status_code, error["status"], codes[0] if codes else None


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        pytest.param("unregistered-1", (404, "NOT_FOUND", "UNREGISTERED"), id="unregistered-P8"),
        pytest.param("mismatch-1", (403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"), id="sender-mismatch-P8"),
        pytest.param("quota-1", (429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), id="quota-P8"),
        pytest.param("unavailable-1", (503, "UNAVAILABLE", "UNAVAILABLE"), id="unavailable"),
        pytest.param("internal-1", (500, "INTERNAL", "INTERNAL"), id="internal"),
        pytest.param("invalid-1", (400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"), id="invalid-token-P8"),
        pytest.param("third-party-auth-1", (401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"), id="third-party"),
    ],
)
async def test_programmed_tokens(simulation: Simulation, token: str, expected: tuple[int, str, str]) -> None:
    access = await simulation.access_token()
    async with simulation.http2() as client:
        response = await simulation.push_fcm(client, access, {"message": {"token": token, "data": {"a": "1"}}})
    assert _error(response) == expected
    entry = await simulation.only(provider="fcm", to=token)
    assert (entry["accepted"], entry["error"]) == (False, expected[2])


@pytest.mark.parametrize(
    ("authorization", "reason"),
    [
        pytest.param("", "CREDENTIALS_MISSING", id="none"),
        pytest.param("Bearer ya29.simulator.9999999999.feed", "ACCESS_TOKEN_TYPE_UNSUPPORTED", id="forged"),
    ],
)
async def test_without_a_good_access_token(simulation: Simulation, authorization: str, reason: str) -> None:
    async with simulation.http2() as client:
        response = await client.post(
            f"{simulation.endpoints['fcm']}/v1/projects/{simulation.endpoints['fcmProject']}/messages:send",
            json={"message": MESSAGE},
            headers={"authorization": authorization},
        )
    assert _error(response) == (401, "UNAUTHENTICATED", None)
    assert response.json()["error"]["details"][0]["reason"] == reason


async def test_another_project_is_denied(simulation: Simulation) -> None:
    access = await simulation.access_token()
    async with simulation.http2() as client:
        response = await client.post(
            f"{simulation.endpoints['fcm']}/v1/projects/other-project/messages:send",
            json={"message": MESSAGE},
            headers={"authorization": f"Bearer {access}"},
        )
    assert _error(response) == (403, "PERMISSION_DENIED", None)


def _assertion(simulation: Simulation, **claims: object) -> str:
    account = orjson.loads(Path(simulation.endpoints["fcmServiceAccountFile"]).read_bytes())
    now = int(time.time())
    return jwt.encode(
        {
            "iss": account["client_email"],
            "aud": account["token_uri"],
            "scope": "https://www.googleapis.com/auth/firebase.messaging",
            "iat": now,
            "exp": now + 3600,
            **claims,
        },
        account["private_key"],
        algorithm="RS256",
        headers={"kid": account["private_key_id"]},
    )


@pytest.mark.parametrize(
    ("claims", "error"),
    [
        pytest.param({}, None, id="good"),
        pytest.param({"iss": "someone@else.example"}, "invalid_grant", id="another-account"),
        pytest.param({"aud": "https://elsewhere.example/token"}, "invalid_grant", id="another-audience"),
        pytest.param({"iat": 1_700_000_000, "exp": 1_700_003_600}, "invalid_grant", id="long-ago"),
        pytest.param({"exp": 9_999_999_999}, "invalid_grant", id="longer-than-an-hour"),
        pytest.param({"scope": "https://www.googleapis.com/auth/drive"}, "invalid_scope", id="wrong-scope"),
    ],
)
@pytest.mark.parametrize("secure", [False, True], ids=["http", "tls"])
async def test_token_endpoint(
    simulation: Simulation, secure: bool, claims: dict[str, object], error: str | None
) -> None:
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": _assertion(simulation, **claims),
    }
    base = simulation.endpoints["fcm"] if secure else simulation.endpoints["url"]
    async with simulation.http2() if secure else plain_client(trust_env=False) as client:
        response = await client.post(f"{base}/token", data=form)
    assert response.json().get("error") == error
    assert response.status_code == (200 if error is None else 400)


async def test_assertion_of_another_key_is_refused(simulation: Simulation) -> None:
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": _assertion(simulation)[:-8] + "AAAAAAAA",
    }
    response = await simulation.control.post("/token", data=form)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_grant")


async def test_token_endpoint_can_fail_and_stays_out_of_the_ledger(simulation: Simulation) -> None:
    await simulation.program("fcm-oauth", {"status": 503}, times=1)
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": _assertion(simulation)}
    assert (await simulation.control.post("/token", data=form)).status_code == 503
    assert (await simulation.control.post("/token", data=form)).status_code == 200
    assert await simulation.messages() == []
