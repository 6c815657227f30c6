"""`ulak outbox` on a source behind a real PgBouncer in transaction mode (O5)."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.integration.ops.cli.outbox.conftest import Operator, add_set_aside, publish
from tests.integration.relay.email.world import World
from tests.integration.relay.pooler import pooler
from tests.integration.relay.rows import add_outbox

pytestmark = [pytest.mark.postgres, pytest.mark.distribution]


async def test_every_command_passes_a_pooler_O5(
    operator: Operator, world: World, foreign_database: str, tmp_path: Path
) -> None:
    [published] = await add_outbox(world.source, topic="orders")
    await publish(world.source)
    [aside] = await add_set_aside(world.source)
    row = await world.enqueue()
    await world.update(row, status="FAILED", error_message="exhausted: 451")
    (tmp_path / "pooler").mkdir()
    with pooler(foreign_database, tmp_path / "pooler") as dsn:
        operator.sources = [{"name": "shop", "dsn": dsn, "application": "webshop", "pooled": True}]
        [_, shop] = (await operator.reads("status"))["sources"]
        assert (shop["events"]["setAside"]["count"], shop["emails"][0]["failed"]["count"]) == (1, 1)
        assert (await operator.reads("show", str(row)))["found"][0]["status"] == "FAILED"
        await operator.types("requeue", str(row), str(aside), "--yes")
        await operator.types("republish", "--since", "1h", "--yes")
        await operator.types("requeue", str(uuid4()), exit_code=1)
    due = await world.source.fetch("SELECT id FROM ulak.outbox WHERE available_at <= now()")
    assert {each["id"] for each in due} == {aside, published}
    assert (await world.row(row))["status"] == "PENDING"
