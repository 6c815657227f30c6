"""`python -m services.relay` with a real broker, and what its tests wait for."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException

from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool
from shared.runtime.keyring import ring_json
from tests.integration.kafka.harness import read_all
from tests.integration.plain_http import plain_client
from tests.integration.relay.rows import count

WITHIN_SEC = 60.0
RING = ring_json(KeyRing(active="k1", keys={"k1": bytes(32)}, lookup_key=bytes(32))).decode()


@contextmanager
def relay(database: str, kafka: KafkaSettings, log: Path, **settings: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`python -m services.relay`, ended by SIGTERM unless it is gone by then; it must then end by itself, with 0."""
    environment = os.environ | {
        "ULAK_POSTGRES_DSN": database,
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "ULAK_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "ULAK_HEALTH_PORT": "0",
        "ULAK_KEY_RING": RING,
        **settings,
    }
    with (
        log.open("ab") as stderr,
        subprocess.Popen([sys.executable, "-m", "services.relay"], env=environment, stderr=stderr) as process,
    ):
        try:
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(20) == 0
        finally:
            if process.poll() is None:
                process.kill()


async def scraped(port: int, sample: str) -> float | None:
    """The value of one line of /metrics, like `ulak_relay_source_up{source="shop"}`."""
    async with plain_client(trust_env=False) as client:
        text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(sample)), None)


async def until_read(kafka: KafkaSettings, topic: str, wanted: int) -> list[bytes]:
    deadline = time.monotonic() + WITHIN_SEC
    values: list[bytes] = []
    while True:
        with suppress(KafkaException):  # a topic just made has no leader for a moment
            values = [message.value() or b"" for message in await read_all(kafka, topic)]
        if len(values) >= wanted:
            return values
        assert time.monotonic() < deadline, f"{len(values)} of {wanted} messages on {topic}"
        await asyncio.sleep(0.1)


async def until_count(pool: Pool, table: str, wanted: int) -> None:
    deadline = time.monotonic() + WITHIN_SEC
    while await count(pool, table) != wanted:
        assert time.monotonic() < deadline, f"ulak.{table} never had {wanted} rows"
        await asyncio.sleep(0.05)
