"""Citizens' changes come into the ledger, and a refusal there is one here; fixture: registry."""

import asyncio
from dataclasses import replace

import pytest

from shared.core.address import target_key
from shared.core.consent import Purpose
from shared.postgres.consent import read_states
from tests.integration.relay.iys.conftest import Registry

pytestmark = pytest.mark.postgres


async def stands(registry: Registry, index: int = 0) -> bool | None:
    subject = (target_key(registry.ring, "SMS", registry.number(index)), "SMS", Purpose.MARKETING)
    word = (await read_states(registry.pool, [subject])).get(subject)
    return None if word is None else word.granted


async def pulled(registry: Registry) -> None:
    pull = await registry.pull()
    while await pull.round():
        pass


async def lines(registry: Registry) -> int:
    subjects = [target_key(registry.ring, "SMS", registry.number(index)) for index in range(20)]
    found: int = await registry.pool.fetchval("SELECT count(*) FROM ulak.consents WHERE subject = ANY($1)", subjects)
    return found


async def test_a_refusal_there_is_one_here_and_is_not_told_back(registry: Registry) -> None:
    await registry.says(minutes=-5)
    await registry.citizen()
    await pulled(registry)
    assert await stands(registry) is False
    row = await registry.pool.fetchrow("SELECT * FROM ulak.consents WHERE source = 'IYS' ORDER BY id DESC LIMIT 1")
    assert row is not None
    assert row["recorded_by"] == "iys"
    assert row["reference"]
    assert (
        await registry.pool.fetchval(
            "SELECT count(*) FROM ulak.iys_records r JOIN ulak.consents c ON c.id = r.consent_id WHERE c.source = 'IYS'"
        )
        == 0
    )


async def test_a_change_is_taken_once_whoever_pulls(registry: Registry) -> None:
    for index in range(20):
        await registry.citizen(index)
    await asyncio.gather(*(pulled(registry) for _ in range(4)))
    assert await lines(registry) == 20
    await registry.pool.execute("DELETE FROM ulak.iys_cursors")  # a database restored to an older point
    await pulled(registry)
    assert await lines(registry) == 20


async def test_the_later_word_stands_wherever_it_was_said(registry: Registry) -> None:
    await registry.citizen(status="ONAY", consentDate="2026-01-01 10:00:00")
    await registry.says(granted=False, minutes=0)
    await pulled(registry)
    assert await stands(registry) is False


async def test_what_ulak_has_no_channel_for_holds_nothing_up(registry: Registry) -> None:
    await registry.citizen(0, type="ARAMA")
    await registry.citizen(1)
    await pulled(registry)
    assert (await stands(registry, 0), await stands(registry, 1)) == (None, False)


async def test_nothing_is_taken_without_its_cursor(registry: Registry) -> None:
    """Both are written or neither: a change whose line cannot be written is pulled again."""
    await registry.citizen()
    pull = await registry.pull(replace(registry.ring))
    await registry.pool.execute("ALTER TABLE ulak.consents ADD CONSTRAINT broken CHECK (source <> 'IYS') NOT VALID")
    with pytest.raises(Exception, match="broken"):
        await pull.round()
    assert await registry.pool.fetchval("SELECT count(*) FROM ulak.iys_cursors") == 0
    await registry.pool.execute("ALTER TABLE ulak.consents DROP CONSTRAINT broken")
    await pulled(registry)
    assert await stands(registry) is False
