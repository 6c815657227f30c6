"""A running simulator as the tests of this folder see it."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jwt
import orjson
import requests
from google.auth.transport.requests import Request as GoogleRequest
from google.oauth2 import service_account

TOPIC = "com.example.shop"
TOKEN = "0a" * 32


@dataclass(frozen=True)
class Simulation:
    endpoints: dict[str, Any]
    control: httpx.AsyncClient

    @property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.endpoints["caFile"])

    @property
    def smtp(self) -> tuple[str, int]:
        host, _, port = str(self.endpoints["smtp"]).partition(":")
        return host, int(port)

    @property
    def twilio_auth(self) -> tuple[str, str]:
        return self.endpoints["twilioAccountSid"], Path(self.endpoints["twilioAuthTokenFile"]).read_text()

    async def messages(self, **query: object) -> list[dict[str, Any]]:
        response = await self.control.get("/_sim/messages", params={key: str(value) for key, value in query.items()})
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["messages"]
        return found

    async def only(self, **query: object) -> dict[str, Any]:
        (message,) = await self.messages(**query)
        return message

    async def program(self, provider: str, action: dict[str, object], **more: object) -> str:
        response = await self.control.post("/_sim/faults", json={"provider": provider, "action": action, **more})
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    def http2(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(http2=True, http1=False, verify=self.tls, trust_env=False)

    @property
    def apns_key(self) -> str:
        return Path(self.endpoints["apnsKeyFile"]).read_text()

    def provider_token(self, *, age_sec: int = 0, **claims: object) -> str:
        return jwt.encode(
            {"iss": self.endpoints["apnsTeamId"], "iat": int(time.time()) - age_sec, **claims},
            self.apns_key,
            algorithm="ES256",
            headers={"kid": self.endpoints["apnsKeyId"]},
        )

    async def push_apns(
        self,
        client: httpx.AsyncClient,
        *,
        token: str = TOKEN,
        payload: object = None,
        jwt_text: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        body = payload if isinstance(payload, bytes) else orjson.dumps(payload or {"aps": {"alert": "Merhaba"}})
        return await client.post(
            f"{self.endpoints['apns']}/3/device/{token}",
            content=body,
            headers={
                "authorization": f"bearer {jwt_text or self.provider_token()}",
                "apns-topic": TOPIC,
                "apns-push-type": "alert",
                **(headers or {}),
            },
        )

    async def access_token(self) -> str:
        """Fetched by Google's own library; its blocking client gets a thread."""
        credentials = service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call] # google-auth
            self.endpoints["fcmServiceAccountFile"], scopes=["https://www.googleapis.com/auth/firebase.messaging"]
        )
        await refreshed(credentials)
        return str(credentials.token)

    async def push_fcm(self, client: httpx.AsyncClient, token: str, body: object) -> httpx.Response:
        url = f"{self.endpoints['fcm']}/v1/projects/{self.endpoints['fcmProject']}/messages:send"
        return await client.post(url, json=body, headers={"authorization": f"Bearer {token}"})

    async def send_sms(self, client: httpx.AsyncClient, **form: str) -> httpx.Response:
        sid, _ = self.twilio_auth
        data = {"To": "+905321234567", "From": "+15005550006", "Body": "Kodunuz 482913", **form}
        url = f"{self.endpoints['twilio']}/2010-04-01/Accounts/{sid}/Messages.json"
        return await client.post(url, data=data, auth=self.twilio_auth)


async def until(fact: Callable[[], Awaitable[bool]], within_sec: float = 60.0) -> None:
    """Poll until the fact holds; fails when it does not in time."""
    deadline = time.monotonic() + within_sec
    while not await fact():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.01)


async def hang_up(transport: asyncio.BaseTransport | None) -> None:
    """Close a transport and wait until its socket is closed: TLS says good-bye first, so it takes a while."""
    if transport is None:
        return
    socket = transport.get_extra_info("socket")
    transport.close()

    async def gone() -> bool:
        return bool(socket is None or socket.fileno() == -1)

    await until(gone)


async def refreshed(credentials: Any) -> None:
    """Have Google's blocking client fetch a token, in a thread, on a connection that is closed afterwards."""
    with requests.Session() as session:
        await asyncio.to_thread(credentials.refresh, GoogleRequest(session))
