"""`ulak why` where there is no API to ask, as on a stack of model A: the rows themselves are asked."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ops.cli.errors import CommandError
from ops.cli.main import build
from shared.core.identifier import EMAIL, NOTIFICATION, new_id, public_id
from shared.core.sealing import KeyRing
from tests.integration.ops.cli.outbox.conftest import Operator
from tests.integration.relay.email.world import World

pytestmark = pytest.mark.postgres


async def asked(operator: Operator, *arguments: str) -> Result:
    environment = {"ULAK_INGEST_URL": None, **operator.environment}
    runner = CliRunner()
    return await asyncio.to_thread(
        runner.invoke, build("why"), ["why", *arguments], env=environment, catch_exceptions=False
    )


async def test_a_services_row_tells_its_story(operator: Operator, world: World, key_ring: KeyRing) -> None:
    row = await world.enqueue_sealed(key_ring, "ayse@example.com")
    await world.update(
        row,
        status="FAILED",
        attempt_count=1,
        error_message="attachment: attachment 1 of 1 is missing",
        provider="smtp",
    )

    for arguments in ([public_id(EMAIL, row)], [str(row)], ["--email", str(row)]):
        output = " ".join((await asked(operator, *arguments)).output.split())
        assert f"{public_id(EMAIL, row)} FAILED" in output
        assert "attachment 1 of 1 is missing" in output
        assert "Put the file where its reference leads" in output
        assert "provider" not in output
    body: dict[str, Any] = json.loads((await asked(operator, str(row), "--json")).stdout)
    assert (body["source"], body["state"], body["steps"][-1]["reason"]) == ("shop", "FAILED", "attachment")
    assert datetime.fromisoformat(body["steps"][0]["at"]) <= datetime.now(UTC)


async def test_a_source_that_is_down_hides_no_other(operator: Operator, world: World) -> None:
    row = await world.enqueue("ayse@example.com")
    operator.lose()
    result = await asked(operator, str(row))
    assert result.exit_code == 0
    assert "It waits until" in result.stdout
    assert "away: " in result.stderr


async def test_what_no_table_has_is_told_so(operator: Operator, world: World) -> None:
    with pytest.raises(CommandError, match="in own, shop: check the id"):
        await asked(operator, str(new_id()))
    with pytest.raises(CommandError, match="only e-mails are known here"):
        await asked(operator, public_id(NOTIFICATION, new_id()))
