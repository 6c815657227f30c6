"""`python -m services.relay` as it is run, by default with `--model-a`, and the simulator as its provider."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg

from ops.dev.environment import SERVER_SETTINGS
from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool
from shared.runtime.keyring import ring_json
from tests.integration.delivery.conftest import Simulator
from tests.integration.plain_http import plain_client
from tests.integration.relay.email.world import until
from tests.ports import free_port

IMPATIENT: Mapping[str, str] = {
    "ULAK_RELAY_EMAIL_LEASE_SEC": "4",
    "ULAK_RELAY_EMAIL_SEND_DEADLINE_SEC": "2",
    "ULAK_RELAY_EMAIL_POLL_SEC": "0.2",
    "ULAK_RELAY_EMAIL_REAPER_POLL_SEC": "0.2",
    "ULAK_RELAY_EMAIL_RETENTION_POLL_SEC": "0.2",
}
"""Leases that end within a test."""


@dataclass(frozen=True)
class RelayProcess:
    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    async def metric(self, sample: str) -> float:
        """The value of one line of /metrics, like `ulak_email_reaped_total{source="shop"}`; 0 without it."""
        async with plain_client(trust_env=False) as client:
            text = (await client.get(f"http://127.0.0.1:{self.port}/metrics")).text
        return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(sample)), 0.0)


StartRelay = Callable[..., AbstractAsyncContextManager[RelayProcess]]


def relay_starter(
    own: str,
    source: str | None,
    ring: KeyRing,
    simulator: Simulator,
    folder: Path,
    *,
    options: Sequence[str] = ("--model-a",),
    **always: str,
) -> StartRelay:
    """Starts relays over Ulak's database and one source named shop; of other servers they know what `always` says."""
    smtp = simulator.smtp()
    environment = {
        **{name: value for name, value in os.environ.items() if name not in SERVER_SETTINGS.values()},
        "ULAK_POSTGRES_DSN": own,
        "ULAK_RELAY_SOURCES": "" if source is None else f'[{{"name": "shop", "dsn": "{source}"}}]',
        "ULAK_KEY_RING": ring_json(ring).decode(),
        "ULAK_SMTP_HOST": str(smtp.host),
        "ULAK_SMTP_PORT": str(smtp.port),
        "ULAK_SMTP_FROM_ADDRESS": str(smtp.from_address),
        "ULAK_SMTP_CA_FILE": str(smtp.ca_file),
        **always,
    }

    @asynccontextmanager
    async def start(**settings: str) -> AsyncIterator[RelayProcess]:
        """Ready when the block begins; ended by SIGTERM after it, unless it is gone by then: it must end with 0."""
        port = free_port()
        log = folder / f"relay-{port}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: ASYNC220  starting it takes no time
                [sys.executable, "-m", "services.relay", *options],
                env={**environment, **settings, "ULAK_HEALTH_PORT": str(port)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        relay = RelayProcess(process, port, log)
        try:
            await until(lambda: _ready(relay), "the relay's readiness", within_sec=90)
            yield relay
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(process.wait, 25) == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(10)

    return start


async def _ready(relay: RelayProcess) -> bool:
    assert relay.process.poll() is None, relay.log.read_text()
    try:
        async with plain_client(trust_env=False) as client:
            return (await client.get(f"http://127.0.0.1:{relay.port}/readyz")).status_code == 200
    except httpx.HTTPError:
        return False


class Barrier:
    """Holds whoever changes a row of email_messages in one way, until it is lifted: there a process can be killed."""

    KEY = 7

    def __init__(self, dsn: str) -> None:
        self._holder = psycopg.connect(dsn, autocommit=True)
        self._holder.execute("SELECT pg_advisory_lock(%s)", [self.KEY])

    async def install(self, pool: Pool, event: str, condition: str) -> None:
        """event: like `UPDATE`; condition: over NEW and OLD, or `true`."""
        result = "OLD" if event == "DELETE" else "NEW"
        await pool.execute(
            f"CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS "
            f"'BEGIN PERFORM pg_advisory_xact_lock({self.KEY}); RETURN {result}; END'"
        )
        await pool.execute(
            f"CREATE TRIGGER hold BEFORE {event} ON ulak.email_messages FOR EACH ROW WHEN ({condition}) "
            "EXECUTE FUNCTION hold()"
        )

    async def reached(self, pool: Pool) -> None:
        async def waits() -> bool:
            waiting = await pool.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            return bool(waiting)

        await until(waits, "the barrier being reached")

    async def lift(self, pool: Pool) -> None:
        """What a killed process left waiting is ended by the server, as if its connection had been lost."""
        await pool.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'ulak relay%'"
        )
        self._holder.execute("SELECT pg_advisory_unlock(%s)", [self.KEY])
        await pool.execute("DROP TRIGGER hold ON ulak.email_messages")

    def close(self) -> None:
        self._holder.close()
