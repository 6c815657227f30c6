"""An operator beside two databases: Ulak's own, with a catalogue, and a shop's, with what `ulak outbox ddl` prints."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from ops.cli.outbox.commands import app
from services.relay.scan import OLDEST
from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.keyring import write_ring
from shared.wire.channel import MessageClass
from tests.integration.relay.conftest import (
    foreign_database,
    foreign_pool,
    make_ordered,
    make_publication,
    make_reader,
    rings,
)
from tests.integration.relay.email.conftest import world
from tests.integration.relay.intake.conftest import make_intake, own, shop, source, write_back
from tests.integration.relay.rows import add_outbox

__all__ = [
    "foreign_database",
    "foreign_pool",
    "make_intake",
    "make_ordered",
    "make_publication",
    "make_reader",
    "own",
    "rings",
    "shop",
    "source",
    "world",
    "write_back",
]

SECRET_DSN = "postgresql://ulak:s3cret@127.0.0.1:1/away"


class Operator:
    """Types `ulak outbox`; beside the shop there may be a source named `away` that is down."""

    def __init__(self, ring: Path, own: str, shop: str) -> None:
        self.ring = ring
        self.own = own
        self.sources: list[dict[str, Any]] = [{"name": "shop", "dsn": shop, "application": "webshop"}]
        self.has_ring = True

    def lose(self, name: str = "away") -> None:
        """One more source, at which nobody answers."""
        self.sources.append({"name": name, "dsn": SECRET_DSN})

    @property
    def environment(self) -> dict[str, str]:
        settings = {"ULAK_POSTGRES_DSN": self.own, "ULAK_RELAY_SOURCES": json.dumps(self.sources)}
        return settings | ({"ULAK_KEY_RING_FILE": str(self.ring)} if self.has_ring else {})

    async def types(self, *arguments: str, exit_code: int = 0) -> Result:
        """In a thread of its own: a command has an event loop of its own."""
        result = await asyncio.to_thread(
            CliRunner().invoke, app, list(arguments), env=self.environment, catch_exceptions=False
        )
        assert result.exit_code == exit_code, result.output
        assert "s3cret" not in result.output
        return result

    async def reads(self, *arguments: str, exit_code: int = 0) -> Any:
        """The JSON that a command answers with."""
        return json.loads((await self.types(*arguments, "--json", exit_code=exit_code)).stdout)

    async def runs(self, *arguments: str) -> Any:
        """The same in a process, for several at once."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "ops.cli", "outbox", *arguments, "--json"),
            env=os.environ | self.environment,
            stdout=asyncio.subprocess.PIPE,
        )
        stdout, _ = await process.communicate()
        assert process.returncode == 0
        return json.loads(stdout)


async def add_set_aside(pool: Pool, count: int = 1, **changed: Any) -> list[UUID]:
    """Rows that the relay will not try again."""
    ids = await add_outbox(pool, count, **{"error": "unknown_topic: topic x does not exist"} | changed)
    await pool.execute("UPDATE ulak.outbox SET available_at = 'infinity' WHERE id = ANY ($1::uuid[])", ids)
    return ids


async def publish(pool: Pool, message_class: MessageClass = MessageClass.TX) -> None:
    """What the relay's claim leaves behind of all that is due."""
    await pool.execute(load_queries("relay")["claim_outbox_keeping"], int(message_class), OLDEST, 10_000, [], 0.0)


@pytest.fixture
def operator(tmp_path: Path, key_ring: KeyRing, database: str, foreign_database: str) -> Operator:
    write_ring(tmp_path / "ring.json", key_ring)
    return Operator(tmp_path / "ring.json", database, foreign_database)
