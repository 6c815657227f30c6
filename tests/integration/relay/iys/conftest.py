"""The simulated registry in a process of its own, and the sync over a real database; fixtures: pool, key_ring."""

import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import orjson
import pytest
from pydantic import SecretStr

from services.relay.iys.client import IysClient, open_client
from services.relay.iys.pull import Pull
from services.relay.iys.settings import IysSettings
from services.relay.iys.store import RecordStore
from services.relay.iys.submission import FollowUp, Submission, Telling
from shared.core.address import target_key
from shared.core.consent import Line, Source
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from shared.postgres.consent import append
from shared.postgres.pool import Pool
from shared.runtime.keyring import FixedRingSource, RingSource
from tests.integration.plain_http import plain_client


@pytest.fixture(scope="session")
def registry_endpoints() -> Iterator[dict[str, str]]:
    with subprocess.Popen([sys.executable, "-m", "ops.simulator"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield orjson.loads(process.stdout.readline())
        process.terminate()


@dataclass
class Registry:
    """The sync of one test, with a number range and a brand cursor of its own at the shared registry."""

    pool: Pool
    ring: KeyRing
    endpoints: dict[str, str]
    control: httpx.AsyncClient
    settings: IysSettings
    clients: AsyncExitStack
    prefix: str = field(default_factory=lambda: f"+90532{secrets.randbelow(10**4):04}")

    def number(self, index: int = 0) -> str:
        """A valid mobile number that no other test uses."""
        return f"{self.prefix}{index:03}"

    async def client(self, **changes: Any) -> IysClient:
        settings = self.settings.model_copy(update=changes)
        return await self.clients.enter_async_context(open_client(settings, monotonic=time.monotonic))

    async def telling(self, rings: RingSource | None = None, **changes: Any) -> Telling:
        """Of a relay with these settings."""
        return Telling(
            RecordStore(self.pool),
            await self.client(**changes),
            rings or FixedRingSource(self.ring),
            self.settings.model_copy(update=changes),
            jitter=lambda: 0.0,
        )

    async def submission(self, **changes: Any) -> Submission:
        return Submission(await self.telling(**changes))

    async def follow_up(self, **changes: Any) -> FollowUp:
        return FollowUp(await self.telling(**changes))

    async def pull(self, ring: KeyRing | None = None) -> Pull:
        rings = FixedRingSource(ring or self.ring)
        return Pull(RecordStore(self.pool), await self.client(), rings, self.settings)

    async def says(
        self, index: int = 0, *, granted: bool = True, channel: str = "SMS", minutes: int = 0, **changes: Any
    ) -> Line:
        """One word of one number's owner, in the ledger."""
        address = changes.pop("address", self.number(index))
        line = Line(
            id=new_id(),
            subject=target_key(self.ring, channel, address),
            channel=channel,
            granted=granted,
            at=datetime.now(UTC) - timedelta(hours=1) + timedelta(minutes=minutes),
            source=Source.HS_WEB,
            address=address,
        )
        line = replace(line, **changes)
        async with self.pool.acquire() as connection, connection.transaction():
            await append(connection, self.ring, [line])
        return line

    async def record(self, consent_id: UUID) -> dict[str, Any]:
        row = await self.pool.fetchrow("SELECT * FROM ulak.iys_records WHERE consent_id = $1", consent_id)
        assert row is not None, "the registry is not told of this line"
        return dict(row)

    async def states(self) -> dict[str, int]:
        rows = await self.pool.fetch("SELECT state, count(*) FROM ulak.iys_records GROUP BY state")
        return {row["state"]: row["count"] for row in rows}

    async def due_now(self) -> None:
        """As if leases and rests were over."""
        await self.pool.execute("UPDATE ulak.iys_records SET next_attempt_at = now() - interval '1 second'")

    async def fault(self, provider: str = "iys", *, to: str | None = None, times: int = 1, **action: Any) -> None:
        body: dict[str, Any] = {"provider": provider, "action": action, "times": times}
        if to is not None:
            body["match"] = {"to": to}
        (await self.control.post("/_sim/faults", json=body)).raise_for_status()

    async def told(self, index: int = 0) -> list[dict[str, Any]]:
        """Calls with this number that reached the registry."""
        answer = await self.control.get("/_sim/messages", params={"provider": "iys", "to": self.number(index)})
        return [entry for entry in answer.json()["messages"] if not entry["content"]["path"].endswith("/status")]

    async def standing(self, index: int = 0, kind: str = "MESAJ") -> str | None:
        """What the registry has of this number."""
        client = await self.client()
        status, body = await client._call(
            "POST",
            "/status",
            {"recipient": self.number(index), "recipientType": "BIREYSEL", "type": kind},
            unknown=True,
        )
        return body["status"] if status == 200 else None

    async def citizen(self, index: int = 0, *, status: str = "RET", **changes: Any) -> None:
        """Somebody changes a permission in the registry's own app."""
        date = (datetime.now(UTC) + timedelta(hours=3)).strftime("%Y-%m-%d %H:%M:%S")
        change = {"recipient": self.number(index), "type": "MESAJ", "status": status, "consentDate": date, **changes}
        (await self.control.post("/_sim/iys/changes", json=change)).raise_for_status()


@pytest.fixture
async def registry(pool: Pool, key_ring: KeyRing, registry_endpoints: dict[str, str]) -> AsyncIterator[Registry]:
    settings = IysSettings(
        base_url=registry_endpoints["iys"],
        username=registry_endpoints["iysUsername"],
        password=SecretStr(registry_endpoints["iysPassword"]),
        code=registry_endpoints["iysCode"],
        brand_code=registry_endpoints["iysBrandCode"],
        result_sec=0.01,
    )
    async with (
        AsyncExitStack() as clients,
        plain_client(base_url=registry_endpoints["url"], trust_env=False) as control,
    ):
        (await control.delete("/_sim")).raise_for_status()
        yield Registry(pool, key_ring, registry_endpoints, control, settings, clients)
