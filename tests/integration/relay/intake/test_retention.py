"""Old links go with the files that Ulak owns, and only those."""

from pathlib import Path
from uuid import UUID

import pytest

from services.relay.intake.retention import LinkRetention
from shared.core.identifier import new_id
from shared.postgres.pool import Pool
from shared.storage.client import open_storage
from shared.storage.settings import StorageSettings

pytestmark = pytest.mark.postgres


async def add_link(pool: Pool, *files: str, days: int = 91, settled: bool = True) -> UUID:
    id_ = new_id()
    await pool.execute(
        "INSERT INTO ulak.email_intakes (notification_id, source, source_id, owned_files, settled_at, created_at) "
        "VALUES ($1, '', $1, $2, CASE WHEN $3 THEN now() END, now() - $4::int * interval '1 day')",
        id_,
        list(files),
        settled,
        days,
    )
    return id_


async def test_old_links_go_with_their_own_files(pool: Pool, tmp_path: Path) -> None:
    for name in ("ours/a.pdf", "ours/shared.pdf", "theirs/b.pdf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    await add_link(pool, "file:ours/a.pdf", "file:theirs/b.pdf")
    await add_link(pool, "file:ours/shared.pdf")
    open_one = await add_link(pool, settled=False)
    young = await add_link(pool, "file:ours/shared.pdf", days=89)

    async with open_storage(StorageSettings(folder=tmp_path, owned="file:ours/")) as storage:
        assert await LinkRetention(pool, storage, keep_days=90).round() is False

    kept = await pool.fetch("SELECT notification_id FROM ulak.email_intakes")
    assert {row["notification_id"] for row in kept} == {open_one, young}
    assert not (tmp_path / "ours/a.pdf").exists()
    assert (tmp_path / "ours/shared.pdf").exists(), "a younger mail still names it"
    assert (tmp_path / "theirs/b.pdf").exists(), "foreign files are never removed"


async def test_a_file_that_cannot_be_removed_keeps_its_link(pool: Pool, tmp_path: Path) -> None:
    stuck = await add_link(pool, "file:ours/a.pdf")
    await add_link(pool)

    async with open_storage(StorageSettings(folder=tmp_path / "not-mounted", owned="file:ours/")) as storage:
        await LinkRetention(pool, storage, keep_days=90).round()

    assert await pool.fetchval("SELECT notification_id FROM ulak.email_intakes") == stuck
