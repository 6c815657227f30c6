"""Amazon SES as moto simulates it: another's reading of AWS's API, which checks signatures and rights as IAM does."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from botocore.session import Session
from moto.server import ThreadedMotoServer
from moto.ses.models import ses_backends
from pydantic import SecretStr

from shared.core.outcome import Accepted, ProviderDown
from shared.core.ports import Envelope
from shared.providers.email.ses.client import SES
from shared.providers.email.ses.settings import SesSettings
from tests.integration.delivery.test_senders import WINDOW, opened, prepared
from tests.integration.plain_http import plain_client

REGION = "eu-central-1"
ACCOUNT = "123456789012"
"""The only one that moto has."""


@dataclass(frozen=True)
class Cloud:
    """A running moto whose user `ulak` may send from the verified domain shop.example."""

    url: str
    key_id: str
    secret: str

    def settings(self, **changes: Any) -> SesSettings:
        values: dict[str, Any] = {
            "region": REGION,
            "access_key_id": self.key_id,
            "secret_access_key": SecretStr(self.secret),
            "base_url": self.url,
            "from_address": "no-reply@shop.example",
        }
        return SesSettings(**(values | changes))

    @property
    def mails(self) -> list[Any]:
        return list(ses_backends[ACCOUNT][REGION].sent_messages)


async def order(url: str, what: str, content: str = "") -> None:
    async with plain_client(trust_env=False) as client:
        (await client.post(f"{url}/moto-api/{what}", content=content)).raise_for_status()


async def check_signatures_from_now_on(url: str) -> None:
    await order(url, "reset-auth", "0")


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    try:
        yield prepared_cloud(url)
    finally:
        await order(url, "reset-auth", "inf")
        await order(url, "reset")
        server.stop()


def prepared_cloud(url: str) -> Cloud:
    anyone = {"endpoint_url": url, "aws_access_key_id": "any", "aws_secret_access_key": "any"}
    iam = Session().create_client("iam", REGION, **anyone)
    iam.create_user(UserName="ulak")
    statement = {"Effect": "Allow", "Action": "ses:SendEmail", "Resource": "*"}
    policy = orjson.dumps({"Version": "2012-10-17", "Statement": [statement]}).decode()
    iam.put_user_policy(UserName="ulak", PolicyName="send", PolicyDocument=policy)
    key = iam.create_access_key(UserName="ulak")["AccessKey"]
    Session().create_client("sesv2", REGION, **anyone).create_email_identity(EmailIdentity="shop.example")
    return Cloud(url, key["AccessKeyId"], key["SecretAccessKey"])


async def test_signed_mail_is_taken_as_it_is(cloud: Cloud) -> None:
    await check_signatures_from_now_on(cloud.url)
    shared = Envelope("eml_1")
    batch = [prepared("EMAIL", address=f"{name}@example.com", envelope=shared) for name in ("ayse", "veli")]
    async with opened(SES.open(cloud.settings())) as sender:
        outcomes = await sender.send(batch, WINDOW)
    (mail,) = cloud.mails
    assert list(outcomes) == [Accepted(mail.id), Accepted(mail.id)]
    assert mail.source == "no-reply@shop.example"
    assert mail.destinations == ["ayse@example.com", "veli@example.com"]
    assert "X-Ulak-Reference: eml_1\n" in mail.raw_data.replace("\r\n", "\n")


@pytest.mark.parametrize("changes", [{"secret_access_key": SecretStr("wrong")}, {"access_key_id": "AKIAOTHER"}])
async def test_signature_of_another_key_is_refused(changes: dict[str, Any], cloud: Cloud) -> None:
    await check_signatures_from_now_on(cloud.url)
    async with opened(SES.open(cloud.settings(**changes))) as sender:
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert outcome == ProviderDown("403")  # moto names the error in XML, AWS in a header
    assert cloud.mails == []
