"""The provider simulator as a process of its own, and settings that point the real senders at it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from pydantic import SecretStr

from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool
from shared.providers.email.mailgun.settings import MailgunSettings
from shared.providers.email.sendgrid.settings import SendgridSettings
from shared.providers.email.ses.settings import SesSettings
from shared.providers.email.smtp.settings import SmtpSettings
from shared.providers.push.apns.settings import ApnsSettings
from shared.providers.push.fcm.settings import FcmSettings
from shared.providers.push.webpush.settings import WebPushSettings
from shared.providers.sms.netgsm.settings import NetgsmSettings
from shared.providers.sms.twilio.settings import TwilioSettings
from shared.providers.sms.vonage.settings import VonageSettings
from tests.integration.delivery.mailing import Mailing, make_mailing
from tests.integration.delivery.world import ScriptedSender, World, make_world
from tests.integration.ledger.world import add_application, add_catalogue
from tests.integration.plain_http import plain_client

SENDER = {"from_address": "no-reply@shop.example", "from_name": "Mağaza"}


@dataclass(frozen=True)
class Simulator:
    """One running simulator: what it received, and faults to come."""

    endpoints: dict[str, str]

    @property
    def url(self) -> str:
        return self.endpoints["twilio"]

    @property
    def ca_file(self) -> Path:
        return Path(self.endpoints["caFile"])

    async def fault(
        self, provider: str, *, times: int | None = None, match: dict[str, str] | None = None, **action: Any
    ) -> None:
        body: dict[str, Any] = {"provider": provider, "action": action}
        if match is not None:
            body["match"] = match
        if times is not None:
            body["times"] = times
        async with plain_client(trust_env=False) as client:
            (await client.post(f"{self.url}/_sim/faults", json=body)).raise_for_status()

    async def messages(self, provider: str) -> list[dict[str, Any]]:
        async with plain_client(trust_env=False) as client:
            reply = await client.get(f"{self.url}/_sim/messages", params={"provider": provider})
        reply.raise_for_status()
        return list(reply.json()["messages"])

    async def accepted(self, provider: str) -> list[dict[str, Any]]:
        return [message for message in await self.messages(provider) if message["accepted"]]

    async def forget(self) -> None:
        async with plain_client(trust_env=False) as client:
            (await client.delete(f"{self.url}/_sim")).raise_for_status()

    def smtp(self, **changes: Any) -> SmtpSettings:
        host, _, port = self.endpoints["smtp"].rpartition(":")
        values: dict[str, Any] = {
            "host": host,
            "port": int(port),
            "ca_file": self.ca_file,
        }
        return SmtpSettings(**(values | SENDER | changes))

    def ses(self, **changes: Any) -> SesSettings:
        values: dict[str, Any] = {
            "region": self.endpoints["sesRegion"],
            "access_key_id": self.endpoints["sesAccessKeyId"],
            "secret_access_key_file": Path(self.endpoints["sesSecretAccessKeyFile"]),
            "base_url": self.endpoints["ses"],
        }
        return SesSettings(**(values | SENDER | changes))

    def sendgrid(self, **changes: Any) -> SendgridSettings:
        values: dict[str, Any] = {
            "api_key_file": Path(self.endpoints["sendgridApiKeyFile"]),
            "base_url": self.endpoints["sendgrid"],
        }
        return SendgridSettings(**(values | SENDER | changes))

    def mailgun(self, **changes: Any) -> MailgunSettings:
        values: dict[str, Any] = {
            "domain": self.endpoints["mailgunDomain"],
            "api_key_file": Path(self.endpoints["mailgunApiKeyFile"]),
            "base_url": self.endpoints["mailgun"],
        }
        return MailgunSettings(**(values | SENDER | changes))

    def apns(self, **changes: Any) -> ApnsSettings:
        values: dict[str, Any] = {
            "key_file": Path(self.endpoints["apnsKeyFile"]),
            "key_id": self.endpoints["apnsKeyId"],
            "team_id": self.endpoints["apnsTeamId"],
            "topic": "com.example.shop",
            "base_url": self.endpoints["apns"],
            "ca_file": self.ca_file,
        }
        return ApnsSettings(**(values | changes))

    def fcm(self, **changes: Any) -> FcmSettings:
        values: dict[str, Any] = {
            "service_account_file": Path(self.endpoints["fcmServiceAccountFile"]),
            "base_url": self.endpoints["fcm"],
            "ca_file": self.ca_file,
        }
        return FcmSettings(**(values | changes))

    def webpush(self, **changes: Any) -> WebPushSettings:
        values: dict[str, Any] = {
            "vapid_key_file": Path(self.endpoints["webpushVapidKeyFile"]),
            "vapid_subject": "mailto:ops@shop.example",
            "trusted_push_hosts": urlsplit(self.endpoints["webpush"]).netloc,
            "ca_file": self.ca_file,
        }
        return WebPushSettings(**(values | changes))

    def subscription(self, name: str, *, service: str | None = None) -> str:
        """What a browser registered, as it is stored; service: another push service than the simulator's."""
        keys = {"p256dh": self.endpoints["webpushP256dh"], "auth": self.endpoints["webpushAuth"]}
        endpoint = (service or self.endpoints["webpush"]) + name
        return orjson.dumps({"endpoint": endpoint, "keys": keys}).decode()

    def vonage(self, **changes: Any) -> VonageSettings:
        values: dict[str, Any] = {
            "api_key": self.endpoints["vonageApiKey"],
            "api_secret_file": Path(self.endpoints["vonageApiSecretFile"]),
            "sender_id": "SHOP",
            "base_url": self.endpoints["vonage"],
        }
        return VonageSettings(**(values | changes))

    def netgsm(self, **changes: Any) -> NetgsmSettings:
        values: dict[str, Any] = {
            "usercode": self.endpoints["netgsmUsercode"],
            "password_file": Path(self.endpoints["netgsmPasswordFile"]),
            "msgheader": self.endpoints["netgsmMsgheader"],
            "base_url": self.endpoints["netgsm"],
        }
        return NetgsmSettings(**(values | changes))

    def twilio(self, **changes: Any) -> TwilioSettings:
        values: dict[str, Any] = {
            "account_sid": self.endpoints["twilioAccountSid"],
            "auth_token": SecretStr(Path(self.endpoints["twilioAuthTokenFile"]).read_text(encoding="ascii").strip()),
            "from_number": "+12025550123",
            "base_url": self.endpoints["twilio"],
        }
        return TwilioSettings(**(values | changes))


@pytest.fixture(scope="session")
def simulator_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    folder = tmp_path_factory.mktemp("simulator")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ops.simulator", "--state-dir", str(folder / "state"), "--receipts", "withheld"],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=Path(__file__).parents[3],
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, (folder / "log").read_text()
        yield Simulator(orjson.loads(line))
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.fixture
async def simulator(simulator_process: Simulator) -> AsyncIterator[Simulator]:
    await simulator_process.forget()
    yield simulator_process
    await simulator_process.forget()
    await asyncio.sleep(0)


@pytest.fixture
async def application(pool: Pool) -> int:
    await add_catalogue(pool)
    return await add_application(pool)


@pytest.fixture
def mailing(pool: Pool, key_ring: KeyRing, application: int) -> Mailing:
    return make_mailing(pool, key_ring, application)


@pytest.fixture
def world(pool: Pool, key_ring: KeyRing) -> World:
    return make_world("sms-tx", pool, key_ring)


@pytest.fixture
def mail(pool: Pool, key_ring: KeyRing) -> World:
    return make_world("email-tx", pool, key_ring, sender=ScriptedSender(provider="smtp"))
