"""What is over goes after its time, with the files that are ours; what is not over never does."""

import asyncio
import base64
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import orjson
import pytest

from services.relay.email.archive import Archive, FolderArchive, NoArchive, TableArchive
from services.relay.email.retention import Retention
from shared.core.storage import Storage, StorageUnavailableError
from shared.storage.client import open_storage
from shared.storage.settings import StorageSettings
from tests.integration.relay.email.world import World

pytestmark = pytest.mark.postgres

OLD = timedelta(days=90, minutes=1)
YOUNG = timedelta(days=89, hours=23)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "outgoing").mkdir(parents=True)
    (folder / "foreign").mkdir()
    return folder


@pytest.fixture
async def storage(files: Path) -> AsyncIterator[Storage]:
    async with open_storage(StorageSettings(folder=files, owned="file:outgoing/")) as opened:
        yield opened


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.pdf")}


def attached(*references: str) -> list[dict[str, str]]:
    return [{"filename": "a.pdf", "contentType": "application/pdf", "storageRef": each} for each in references]


async def ended(world: World, age: timedelta = OLD, *, status: str = "SENT", **named: Any) -> UUID:
    row_id = await world.enqueue(**named)
    await world.update(row_id, status=status, created_at=datetime.now(UTC) - age)
    return row_id


async def left(world: World) -> set[UUID]:
    return {row["id"] for row in await world.source.fetch("SELECT id FROM ulak.email_messages")}


def retention(world: World, storage: Storage, archive: Archive | None = None, **settings: Any) -> Retention:
    chosen = world.settings.model_copy(update=settings)
    return Retention("shop", world.source, chosen, storage=storage, archive=archive or NoArchive())


async def to_the_end(job: Retention) -> int:
    rounds = 1
    while await job.round():
        rounds += 1
    return rounds


async def test_only_what_is_over_and_old_goes(world: World, storage: Storage) -> None:
    kept = {
        await ended(world, YOUNG),
        await ended(world, YOUNG, status="FAILED"),
        await ended(world, timedelta(days=1000), status="PENDING"),
        await ended(world, timedelta(days=1000), status="SENDING"),
    }
    await ended(world)
    await ended(world, status="FAILED")
    await ended(world, model="B")
    assert await retention(world, storage).round() is False
    assert await left(world) == kept


async def test_rows_go_in_small_batches_until_none_is_left(world: World, storage: Storage) -> None:
    for _ in range(25):
        await ended(world)
    young = await ended(world, YOUNG)
    assert await to_the_end(retention(world, storage, retention_batch=10)) == 3
    assert await left(world) == {young}


async def test_days_are_a_setting(world: World, storage: Storage) -> None:
    await ended(world, timedelta(days=31))
    await retention(world, storage, keep_days=30).round()
    assert await left(world) == set()


async def test_files_of_ours_go_with_their_row_and_foreign_ones_never(
    world: World, storage: Storage, files: Path
) -> None:
    for name in ("outgoing/a.pdf", "outgoing/b.pdf", "foreign/c.pdf", "outgoing/young.pdf"):
        (files / name).write_bytes(b"%PDF")
    await ended(world, attachments=attached("file:outgoing/a.pdf", "file:outgoing/b.pdf", "file:foreign/c.pdf"))
    await ended(world, attachments=attached("s3://theirs/d.pdf", "not a reference"))
    young = await ended(world, YOUNG, attachments=attached("file:outgoing/young.pdf"))
    await retention(world, storage).round()
    assert await left(world) == {young}
    assert names(files) == {"foreign/c.pdf", "outgoing/young.pdf"}


@pytest.mark.parametrize("status", ["PENDING", "SENDING", "FAILED", "SENT"])
async def test_a_file_that_another_row_names_stays_for_it(
    world: World, storage: Storage, files: Path, status: str
) -> None:
    (files / "outgoing/a.pdf").write_bytes(b"%PDF")
    await ended(world, attachments=attached("file:outgoing/a.pdf"))
    other = await ended(world, YOUNG, status=status, attachments=attached("file:outgoing/a.pdf"))
    await retention(world, storage).round()
    assert await left(world) == {other}
    assert (files / "outgoing/a.pdf").exists()


async def test_the_last_row_of_a_shared_file_takes_it_along(world: World, storage: Storage, files: Path) -> None:
    (files / "outgoing/a.pdf").write_bytes(b"%PDF")
    for _ in range(3):
        await ended(world, attachments=attached("file:outgoing/a.pdf"))
    await retention(world, storage).round()
    assert await left(world) == set()
    assert not (files / "outgoing/a.pdf").exists()


async def test_a_file_that_is_gone_already_keeps_no_row(world: World, storage: Storage) -> None:
    """What a crash between file and row leaves: the next round ends it."""
    await ended(world, attachments=attached("file:outgoing/gone.pdf"))
    await retention(world, storage).round()
    assert await left(world) == set()


class BrokenStorage:
    """Away for every file whose name says so."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.asked = 0

    async def read(self, ref: str, *, max_bytes: int, timeout_sec: float) -> bytes:
        raise AssertionError("nothing is read here")

    async def delete(self, ref: str) -> None:
        self.asked += 1
        if "away" in ref:
            raise StorageUnavailableError("S3 cannot be used for an s3: reference (no answer)")
        self.deleted.append(ref)

    def owns(self, ref: str) -> bool:
        return ref.startswith("file:")


async def test_a_storage_that_is_away_keeps_its_rows_and_no_others(world: World) -> None:
    storage = BrokenStorage()
    stuck = {await ended(world, attachments=attached(f"file:away-{number}")) for number in range(12)}
    for _ in range(12):
        await ended(world)
    job = retention(world, storage, retention_batch=5)
    await to_the_end(job)
    assert await left(world) == stuck
    assert storage.asked <= 6, "once a batch, not once a row"


async def test_a_row_that_is_put_in_line_again_meanwhile_waits_and_finds_itself_gone(
    world: World, files: Path, storage: Storage
) -> None:
    """The row is locked while its file goes: a requeue comes before it or not at all, never in between."""
    (files / "outgoing/a.pdf").write_bytes(b"%PDF")
    row_id = await ended(world, status="FAILED", attachments=attached("file:outgoing/a.pdf"))
    entered, go_on = asyncio.Event(), asyncio.Event()

    class Held:
        async def read(self, ref: str, *, max_bytes: int, timeout_sec: float) -> bytes:
            return await storage.read(ref, max_bytes=max_bytes, timeout_sec=timeout_sec)

        async def delete(self, ref: str) -> None:
            entered.set()
            await go_on.wait()
            await storage.delete(ref)

        def owns(self, ref: str) -> bool:
            return storage.owns(ref)

    round_ = asyncio.create_task(retention(world, Held()).round())
    await asyncio.wait_for(entered.wait(), 60)
    requeue = "UPDATE ulak.email_messages SET status = 'PENDING' WHERE id = $1 AND status = 'FAILED'"
    async with world.source.acquire() as other:
        await other.execute("SET lock_timeout = '100ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await other.execute(requeue, row_id)
    go_on.set()
    await round_
    assert await world.source.execute(requeue, row_id) == "UPDATE 0"
    assert not (files / "outgoing/a.pdf").exists()


async def test_one_instance_at_a_time(world: World, storage: Storage) -> None:
    await ended(world)
    async with world.source.acquire() as other, other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock($1)", 0x756C616B_11)
        assert await retention(world, storage).round() is False
        assert len(await left(world)) == 1
    await retention(world, storage).round()
    assert await left(world) == set()


# ---------------------------------------------------------------- archives


async def test_archived_to_the_table_a_row_is_in_exactly_one_of_the_two(world: World, storage: Storage) -> None:
    row_id = await ended(world)
    before = await world.row(row_id)
    await retention(world, storage, TableArchive()).round()
    assert await left(world) == set()
    [row] = await world.source.fetch("SELECT * FROM ulak.email_messages_archive")
    archived = dict(row)
    assert archived.pop("archived_at") is not None
    assert archived == before


async def test_archived_to_a_folder_every_row_is_a_line(world: World, storage: Storage, tmp_path: Path) -> None:
    row_id = await world.enqueue("ayse@example.com", "bora@example.com")
    await world.drain()
    await world.update(row_id, created_at=datetime.now(UTC) - OLD)
    recipients = (await world.row(row_id))["recipients"]
    archive = FolderArchive(tmp_path / "archive", clock=lambda: datetime(2026, 11, 30, 3, tzinfo=UTC))
    await retention(world, storage, archive).round()
    archive.close()
    [path] = (tmp_path / "archive").iterdir()
    assert path.name == "shop-2026-11-30.ndjson"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    [line] = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert (line["source"], line["id"], line["status"], line["sealed"]) == ("shop", str(row_id), "SENT", True)
    assert line["outcomes"] == {"0": "SENT", "1": "SENT"}
    assert base64.b64decode(line["recipients"]) == recipients
    assert b"ayse" not in path.read_bytes()
    assert await left(world) == set()


async def test_a_line_that_a_crash_cut_short_does_not_swallow_the_next(
    world: World, storage: Storage, tmp_path: Path
) -> None:
    archive = FolderArchive(tmp_path, clock=lambda: datetime(2026, 11, 30, 3, tzinfo=UTC))
    (tmp_path / "shop-2026-11-30.ndjson").write_bytes(b'{"id": "cut sh')
    row_id = await ended(world)
    await retention(world, storage, archive).round()
    archive.close()
    lines = (tmp_path / "shop-2026-11-30.ndjson").read_bytes().splitlines()
    assert lines[0] == b'{"id": "cut sh'
    assert orjson.loads(lines[1])["id"] == str(row_id)


async def test_what_cannot_be_archived_is_not_removed(world: World, storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(b"a file where the folder should be")
    archive = FolderArchive(tmp_path / "archive")
    row_id = await ended(world)
    with pytest.raises(OSError, match="archive"):
        await retention(world, storage, archive).round()
    archive.close()
    assert await left(world) == {row_id}
