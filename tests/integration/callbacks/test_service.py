"""The callback service as it is run: processes of their own, a real broker, Twilio's own signatures."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from shared.core.lifecycle import DeliveryStatus, NotificationState
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.pool import Pool
from shared.providers.sms.twilio.receipts import signature
from shared.runtime.keyring import ring_json
from shared.wire.channel import Promise
from shared.wire.topic import DELIVERY_RECEIPTS, declared_topics
from tests.integration.kafka.harness import read_all
from tests.integration.plain_http import plain_client
from tests.integration.relay.rows import add_delivery, add_notification, delivery
from tests.ports import free_port

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

PUBLIC_URL = "https://hooks.example.com"
TOKEN = "twilio-test-token"


@pytest.fixture
async def kafka(kafka_settings: KafkaSettings) -> KafkaSettings:
    needed = {DELIVERY_RECEIPTS, "delivery-events", "receipts-dlq"}
    await apply(kafka_settings, [spec for spec in declared_topics(max_partitions=1) if spec.name in needed])
    return kafka_settings


class Callbacks:
    """A running service and how to call it as Twilio would."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url = url
        self.client = client

    async def call(
        self,
        key: DeliveryKey,
        *,
        sid: str = "SM1",
        status: str = "delivered",
        token: str = TOKEN,
        public_url: str = PUBLIC_URL,
        headers: dict[str, str] | None = None,
        path: str = "/callbacks/twilio",
        **more: str,
    ) -> httpx.Response:
        target = f"{path}?{urlencode({'ref': key.reference, 'attempt': 1})}"
        fields = {"MessageSid": sid, "MessageStatus": status} | more
        signed = signature(token, public_url + target, fields.items())
        return await self.client.post(
            self._url + target, data=fields, headers={"X-Twilio-Signature": signed} | (headers or {})
        )


@contextmanager
def process(
    part: str, database: str, kafka: KafkaSettings, key_ring: KeyRing, tmp_path: Path, **settings: str
) -> Iterator[str]:
    """`python -m services.callbacks --part ...`; yields the HTTP surface's URL; SIGTERM must end it with 0."""
    ring, port = tmp_path / "ring.json", free_port()
    ring.write_bytes(ring_json(key_ring))
    ring.chmod(0o600)
    environment = os.environ | {
        "ULAK_POSTGRES_DSN": database,
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "ULAK_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "ULAK_KEY_RING_FILE": str(ring),
        "ULAK_HEALTH_PORT": "0",
        "ULAK_HTTP_PORT": str(port),
        "ULAK_PUBLIC_CALLBACK_URL": PUBLIC_URL,
        "ULAK_TWILIO_ACCOUNT_SID": "AC" + "0" * 32,
        "ULAK_TWILIO_AUTH_TOKEN": TOKEN,
        "ULAK_TWILIO_FROM_NUMBER": "+15005550006",
        **settings,
    }
    with (
        (tmp_path / f"{part}.log").open("ab") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "services.callbacks", "--part", part], env=environment, stderr=stderr
        ) as running,
    ):
        try:
            yield f"http://127.0.0.1:{port}"
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0
        finally:
            if running.poll() is None:
                running.kill()


async def listening(url: str, client: httpx.AsyncClient) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            await client.get(url)
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the service never listened"
            await asyncio.sleep(0.05)
        else:
            return


async def ready(url: str, client: httpx.AsyncClient, key: DeliveryKey) -> Callbacks:
    """The surface answers, and its broker does: a signed call is taken."""
    callbacks = Callbacks(url, client)
    await listening(url, client)
    deadline = time.monotonic() + 60
    while True:
        if (await callbacks.call(key, sid="SM-probe", status="queued")).status_code == 204:
            return callbacks
        assert time.monotonic() < deadline, "the service never took a callback"
        await asyncio.sleep(0.1)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    async with plain_client(timeout=30, limits=limits, trust_env=False) as opened:
        yield opened


@pytest.fixture
async def sent(pool: Pool) -> DeliveryKey:
    notification = await add_notification(pool, state=NotificationState.DECIDED)
    return await add_delivery(
        pool,
        notification,
        channel="SMS",
        promise=Promise.AT_MOST_ONCE,
        status=DeliveryStatus.SENT,
        attempt=1,
        provider="twilio",
    )


async def test_a_callback_reaches_its_delivery(
    pool: Pool,
    database: str,
    kafka: KafkaSettings,
    key_ring: KeyRing,
    tmp_path: Path,
    client: httpx.AsyncClient,
    sent: DeliveryKey,
) -> None:
    with process("all", database, kafka, key_ring, tmp_path) as url:
        callbacks = await ready(url, client, sent)
        answer = await callbacks.call(sent, To="+905321234567")
        assert answer.status_code == 204
        deadline = time.monotonic() + 60
        while (await delivery(pool, sent))["status"] != "DELIVERED":
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    values = b"".join(message.value() or b"" for message in await read_all(kafka, DELIVERY_RECEIPTS))
    assert b"5321234567" not in values, "sealed"
    assert b"5321234567" not in (tmp_path / "all.log").read_bytes()


async def test_refusals_change_nothing_and_the_public_url_decides_S5(
    database: str, kafka: KafkaSettings, key_ring: KeyRing, tmp_path: Path, client: httpx.AsyncClient, sent: DeliveryKey
) -> None:
    with process("receiver", database, kafka, key_ring, tmp_path) as url:
        callbacks = await ready(url, client, sent)
        before = len(await read_all(kafka, DELIVERY_RECEIPTS))
        spoofed = {"Host": "evil.test", "X-Forwarded-Host": "evil.test", "X-Forwarded-Proto": "http"}

        answers = [
            await callbacks.call(sent, token="guess"),
            await callbacks.call(sent, headers=spoofed, public_url="http://evil.test"),
            await client.post(f"{url}/callbacks/twilio?ref={sent.reference}&attempt=1", data={"MessageSid": "SM1"}),
            await callbacks.call(sent, path="/callbacks/acme"),
            await callbacks.call(sent, path="/callbacks/twilio/other"),
            await callbacks.call(sent, Body="x" * 70_000),
            await client.get(f"{url}/callbacks/twilio"),
        ]

        assert [answer.status_code for answer in answers] == [403, 403, 401, 404, 404, 413, 405]
        assert answers[0].headers["content-type"] == "application/problem+json"
        assert answers[0].json()["code"] == "signature_refused"
        assert len(await read_all(kafka, DELIVERY_RECEIPTS)) == before
        assert (await callbacks.call(sent, headers=spoofed)).status_code == 204, "the right one behind such a proxy"


async def test_a_storm_is_taken_whole_and_durably(
    database: str, kafka: KafkaSettings, key_ring: KeyRing, tmp_path: Path, client: httpx.AsyncClient, sent: DeliveryKey
) -> None:
    """1,000 callbacks, 200 at a time: all 2xx, all on the topic."""
    with process("receiver", database, kafka, key_ring, tmp_path) as url:
        callbacks = await ready(url, client, sent)
        before = len(await read_all(kafka, DELIVERY_RECEIPTS))
        gate = asyncio.Semaphore(200)

        async def one(number: int) -> int:
            async with gate:
                return (await callbacks.call(sent, sid=f"SM{number}")).status_code

        statuses = await asyncio.gather(*(one(number) for number in range(1_000)))

        assert set(statuses) == {204}
        messages = (await read_all(kafka, DELIVERY_RECEIPTS))[before:]
        assert {message.key() for message in messages} == {f"SM{number}".encode() for number in range(1_000)}


async def test_without_a_broker_it_says_503_in_bounded_time(
    database: str, kafka: KafkaSettings, key_ring: KeyRing, tmp_path: Path, client: httpx.AsyncClient, sent: DeliveryKey
) -> None:
    nowhere = {"ULAK_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}", "ULAK_KAFKA_DELIVERY_TIMEOUT_MS": "1000"}
    with process("receiver", database, kafka, key_ring, tmp_path, **nowhere) as url:
        callbacks = Callbacks(url, client)
        await listening(url, client)
        started = time.monotonic()
        answer = await callbacks.call(sent)

        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert time.monotonic() - started < 6
        assert (await callbacks.call(sent, token="guess")).status_code == 403, "forgeries are told all the same"


async def test_a_callback_that_cannot_be_applied_is_a_dead_letter(
    database: str, kafka: KafkaSettings, key_ring: KeyRing, tmp_path: Path, client: httpx.AsyncClient, sent: DeliveryKey
) -> None:
    with process("all", database, kafka, key_ring, tmp_path) as url:
        callbacks = await ready(url, client, sent)
        assert (await callbacks.call(sent, status="teleported")).status_code == 204
        deadline = time.monotonic() + 60
        while not (letters := await read_all(kafka, "receipts-dlq")):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)

    (letter,) = letters
    headers = dict(letter.headers() or [])
    assert headers["ulak-dlq-error-class"] == b"unreadable"
    assert headers["ulak-dlq-sealed"] == b"1"
