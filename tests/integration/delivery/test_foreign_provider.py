"""A provider from another distribution, as docs/providers.md tells to write one: found, used, and passed over."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson
import pytest

from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass, Promise
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.test_worker_process import Workers, create, in_status, publish, workers
from tests.integration.delivery.world import Seeded, Seeder

__all__ = ["workers"]

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.redis]

_ROOT = Path(__file__).parents[3]


@dataclass
class Acme:
    """The make-believe vendor: keeps what it was posted; `status` is its answer."""

    url: str = ""
    status: str = "202 Accepted"
    messages: list[dict[str, str]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await _head(reader):
                headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(headers["content-length"]))
                self.messages.append(orjson.loads(body))
                self.keys.add(headers["authorization"])
                reply = orjson.dumps({"id": f"acme-{len(self.messages)}"})
                writer.write(
                    f"HTTP/1.1 {self.status}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(reply)}\r\n\r\n".encode()
                    + reply
                )
                await writer.drain()
        finally:
            writer.close()


async def _head(reader: asyncio.StreamReader) -> str:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return ""


@pytest.fixture
async def acme() -> AsyncIterator[Acme]:
    vendor = Acme()
    server = await asyncio.start_server(vendor.serve, "127.0.0.1", 0)
    async with server:
        vendor.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield vendor


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the document's own distribution was installed to."""
    text = (_ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
    section = text.split("## Bring one of your own", 1)[1].split("\n## ", 1)[0]
    source, target = tmp_path_factory.mktemp("acme-ulak"), tmp_path_factory.mktemp("site")
    for language, name in (("toml", "pyproject.toml"), ("python", "acme_ulak.py")):
        (block,) = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
        (source / name).write_text(block, encoding="utf-8")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"),
            *("--no-deps", "--no-build-isolation", "--target", str(target), str(source)),
        ],
        check=True,
    )
    return target


async def test_it_carries_messages_and_is_passed_over_when_it_refuses_us(
    installed: Path,
    acme: Acme,
    workers: Workers,
    simulator: Simulator,
    pool: Pool,
    kafka_settings: KafkaSettings,
    key_ring: KeyRing,
) -> None:
    lane = DEFAULT_CHANNELS.lane("otp-sms")
    await create(kafka_settings, lane)
    environment = {
        **workers.environment,
        "PYTHONPATH": str(installed),
        "ULAK_ACME_KEY": "secret",
        "ULAK_ACME_BASE_URL": acme.url,
        "ULAK_WORKERS_PROVIDERS": '{"SMS": "acme, twilio"}',
    }
    await replace(workers, environment=environment).start(lane.name)
    seeder = Seeder(pool, key_ring)

    async def code() -> Seeded:
        made = await seeder.delivery("SMS", message_class=MessageClass.CRITICAL, promise=Promise.AT_LEAST_ONCE)
        await publish(kafka_settings, made)
        await in_status(seeder, made, "SENT")
        return made

    first = await code()
    row = await seeder.row(first.key)
    assert (row["provider"], row["provider_message_id"]) == ("acme", "acme-1")
    assert acme.messages == [{"to": "+905321234567", "text": "Kodunuz hazır", "idempotencyKey": first.key.reference}]
    assert acme.keys == {"bearer secret"}

    acme.status = "401 Unauthorized"
    second = await code()
    row = await seeder.row(second.key)
    assert (row["provider"], row["attempt"]) == ("twilio", 1)  # the refusal burnt no attempt of the code's
    assert len(acme.messages) == 2
    assert len(await simulator.accepted("twilio")) == 1

    listed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "ops.cli", "provider", "list", "--json"],
        cwd=_ROOT,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
    )
    (told,) = (each for each in orjson.loads(listed.stdout)["providers"] if each["name"] == "acme")
    assert (told["channel"], told["state"]) == ("SMS", "enabled")
    (breaker,) = told["breakers"]
    assert (breaker["class"], breaker["reason"]) == ("critical", "the account is refused, the last: 401 key refused")
