"""What operators say, read in one snapshot; a watch that knows of it within a second and outlives its database."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime
from uuid import UUID

import pytest

from shared.core.control import CallerQuota, Controls, PauseKind, QuotaOverride
from shared.postgres.control import load_controls
from shared.postgres.control_watch import watching
from shared.postgres.pool import Pool
from shared.runtime.metrics import CONTROL_FAILURES

pytestmark = pytest.mark.postgres

PAUSE = "INSERT INTO ulak.pauses (kind, key, note, paused_by) VALUES ($1, $2, 'why', 'operator ada')"


async def _when(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110  # the watch has no event: nobody else waits for it
            await asyncio.sleep(0.01)


async def test_all_of_it_is_read_as_it_was_written(pool: Pool) -> None:
    assert await load_controls(pool) == Controls(1)
    await pool.execute(PAUSE, "lane", "push-bulk")
    await pool.execute(PAUSE, "type", "SALE")
    await pool.execute("UPDATE ulak.pauses SET resumed_at = now(), resumed_by = 'operator ada' WHERE kind = 'type'")
    await pool.execute(
        "INSERT INTO ulak.quotas VALUES ('ses', 'domain:shop.example', 5, 1, 1000, '2026-12-01', 50, 2, 'ada')"
    )
    await pool.execute("INSERT INTO ulak.provider_drains (account, note, drained_by) VALUES ('fcm', 'move', 'ada')")
    application = await pool.fetchval("INSERT INTO ulak.applications (name) VALUES ('shop') RETURNING id")
    key = UUID(int=5)
    await pool.execute(
        "INSERT INTO ulak.api_keys (id, application_id, name, secret_hash, kind, scopes)"
        " VALUES ($1, $2, 'k', '\\x01', 'live', '{}')",
        key,
        application,
    )
    await pool.execute("INSERT INTO ulak.caller_quotas VALUES ($1, 'SALE', 10, NULL, 'ada')", key)

    controls = await load_controls(pool)

    assert controls.revision == 7  # one for each change
    assert [(each.kind, each.key, each.note) for each in controls.pauses] == [(PauseKind.LANE, "push-bulk", "why")]
    override = QuotaOverride("ses", "domain:shop.example", 5.0, 1.0, 1000, date(2026, 12, 1), 50, 2.0)
    assert controls.quotas == {("ses", "domain:shop.example"): override}
    assert controls.caller_quotas == {(key, "SALE"): CallerQuota(key, "SALE", 10, None)}
    assert controls.drains["fcm"].note == "move"
    assert controls.drains["fcm"].drained_at <= datetime.now(UTC)


async def test_a_watch_learns_of_a_pause_and_of_its_end(pool: Pool) -> None:
    async with watching(pool, poll_sec=0.02) as watch:
        assert watch.current.revision == 1
        await pool.execute(PAUSE, "lane", "push-bulk")
        await _when(lambda: watch.current.lane("push-bulk") is not None)
        await pool.execute("UPDATE ulak.pauses SET resumed_at = now()")
        await _when(lambda: watch.current.lane("push-bulk") is None)


async def test_what_is_known_to_have_changed_is_read_at_once(pool: Pool) -> None:
    async with watching(pool, poll_sec=3600) as watch:
        known = watch.current.revision
        await pool.execute(PAUSE, "type", "SALE")
        read = await asyncio.gather(*(watch.other_than(known) for _ in range(5)))
        assert all(each is watch.current for each in read)  # once for all five
        assert watch.current.holding


async def test_a_database_restored_to_an_earlier_revision_is_believed(pool: Pool) -> None:
    await pool.execute(PAUSE, "type", "SALE")
    async with watching(pool, poll_sec=0.02) as watch:
        await pool.execute("ALTER TABLE ulak.pauses DISABLE TRIGGER pauses_changed")
        await pool.execute("DELETE FROM ulak.pauses")
        await pool.execute("UPDATE ulak.control_revision SET revision = 1")
        await _when(lambda: watch.current == Controls(1))


async def test_the_last_known_stays_in_force_while_the_database_is_away(pool: Pool) -> None:
    await pool.execute(PAUSE, "lane", "push-bulk")
    async with watching(pool, poll_sec=0.02) as watch:
        await pool.execute("ALTER TABLE ulak.control_revision RENAME TO hidden_revision")
        failures = CONTROL_FAILURES._value.get()
        await _when(lambda: CONTROL_FAILURES._value.get() > failures + 1)
        assert watch.current.lane("push-bulk") is not None
        await pool.execute("ALTER TABLE ulak.hidden_revision RENAME TO control_revision")
